#include "schedule/stopwatch.h"

#include <atomic>
#include <chrono>

namespace llmd::schedule {
namespace {

#if defined(__x86_64__)
using Steady = std::chrono::steady_clock;

struct Anchor {
  uint64_t ticks = __rdtsc();
  Steady::time_point time = Steady::now();
};
const Anchor anchor;  // NOLINT: reads two counters

constexpr double kCalibrationSeconds = 0.1;
std::atomic<double> calibrated{0};

double measure() {
  const double elapsed = std::chrono::duration<double>(Steady::now() - anchor.time).count();
  const uint64_t ticks = __rdtsc() - anchor.ticks;
  const double ratio = ticks > 0 ? elapsed / static_cast<double>(ticks) : 0;
  if (elapsed >= kCalibrationSeconds) calibrated.store(ratio, std::memory_order_relaxed);
  return ratio;
}
#endif

}  // namespace

double Stopwatch::seconds_per_tick() {
#if defined(__x86_64__)
  const double ratio = calibrated.load(std::memory_order_relaxed);
  return ratio > 0 ? ratio : measure();
#else
  using Period = std::chrono::steady_clock::period;
  return static_cast<double>(Period::num) / Period::den;
#endif
}

}  // namespace llmd::schedule
