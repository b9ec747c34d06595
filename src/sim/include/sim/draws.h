#pragma once

#include "base/rng.h"

#include <cmath>
#include <cstdint>
#include <numbers>

namespace llmd::sim {

/// Random numbers addressed by position: the k-th draw of a stream is a function of (seed, stream,
/// k) alone, so what one request draws does not depend on how requests interleave. Streams are
/// numbered by request and choice. Threading: one thread. Cost: three multiplications a draw; 16
/// bytes of state.
class Draws {
 public:
  Draws() = default;
  Draws(uint64_t seed, uint64_t stream) : key_(mix(seed ^ mix(stream + kStep))) {}

  /// A stream of its own for the `i`-th part of this one.
  Draws sub(uint64_t i) const {
    Draws d;
    d.key_ = mix(key_ ^ mix(~i));
    return d;
  }

  uint64_t next() { return mix(key_ + kStep * ++position_); }

  /// Uniform in [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

  /// Uniform in [low, high]; the bias of a 64-bit multiply-shift is far below anything observable
  /// here.
  int64_t between(int64_t low, int64_t high) {
    const auto width = static_cast<uint64_t>(high - low) + 1;
    return low + static_cast<int64_t>((static_cast<uint128>(next()) * width) >> 64);
  }

  /// Normal deviate by Box and Muller's transform; two draws.
  double normal(double mean, double deviation) {
    const double u = 1.0 - uniform();
    const double v = uniform();
    return mean + deviation * std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
  }

 private:
  static constexpr uint64_t kStep = 0x9e3779b97f4a7c15;
  static uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  uint64_t key_ = 0;
  uint64_t position_ = 0;
};

}  // namespace llmd::sim
