#pragma once

#include <bit>
#include <cstdint>

namespace llmd {

__extension__ using uint128 = unsigned __int128;

/// xoshiro256** seeded by splitmix64: small, fast, and the same sequence everywhere for one seed.
/// Not for secrets. Threading: one thread; every loop owns one, every test injects one.
class Rng {
 public:
  explicit Rng(uint64_t seed) {
    for (auto& word : state_) {
      seed += 0x9e3779b97f4a7c15;
      uint64_t z = seed;
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
      z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
      word = z ^ (z >> 31);
    }
  }

  uint64_t next() {
    const uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const uint64_t t = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= t;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  /// Uniform in [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

  /// Uniform in [0, n), by multiply-shift with rejection, so without bias. Requires: n > 0.
  uint64_t below(uint64_t n) {
    uint128 m = static_cast<uint128>(next()) * n;
    if (auto low = static_cast<uint64_t>(m); low < n) {
      const uint64_t threshold = -n % n;
      while (low < threshold) {
        m = static_cast<uint128>(next()) * n;
        low = static_cast<uint64_t>(m);
      }
    }
    return static_cast<uint64_t>(m >> 64);
  }

 private:
  uint64_t state_[4];
};

/// A seed from the operating system.
uint64_t random_seed();

}  // namespace llmd
