#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <x86intrin.h>
#else
#include <chrono>
#endif

namespace llmd::schedule {

/// Times consecutive steps with one reading between each two, so that a chain of n steps costs
/// n + 1 readings. On x86-64 a reading is the time-stamp counter (about 10 ns, no call); elsewhere
/// it is the monotonic clock.
/// Threading: one thread, one core socket at a time; counters of one machine agree closely enough
/// for the microseconds that are measured here.
class Stopwatch {
 public:
  Stopwatch() : last_(ticks()) {}

  /// Seconds since construction or the last lap. Never negative.
  double lap() {
    const uint64_t now = ticks();
    const auto elapsed = static_cast<int64_t>(now - last_);
    last_ = now;
    return elapsed > 0 ? static_cast<double>(elapsed) * seconds_per_tick() : 0;
  }

 private:
  static uint64_t ticks() {
#if defined(__x86_64__)
    return __rdtsc();
#else
    return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
#endif
  }
  /// Measured against the monotonic clock since the start of the process; fixed once the two are
  /// a tenth of a second from there. Before that each call reads the clock.
  static double seconds_per_tick();

  uint64_t last_;
};

}  // namespace llmd::schedule
