#pragma once

#include <chrono>
#include <cstdint>

namespace llmd {

using Nanos = std::chrono::nanoseconds;
/// A moment of the monotonic clock. Only differences mean anything.
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Nanos>;
/// A moment of the calendar, for logs and wire formats.
using WallTime = std::chrono::time_point<std::chrono::system_clock, Nanos>;

inline double seconds(Nanos d) {
  return std::chrono::duration<double>(d).count();
}
inline double millis(Nanos d) {
  return std::chrono::duration<double, std::milli>(d).count();
}

/// Source of time, injected wherever behaviour depends on it.
/// Threading: implementations may be read from any thread.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;
  virtual WallTime wall() const = 0;
};

/// The machine's clocks.
const Clock& real_clock();

/// A clock that a test moves by hand; wall time starts at the Unix epoch. Threading: one thread.
class ManualClock final : public Clock {
 public:
  TimePoint now() const override { return TimePoint(elapsed_); }
  WallTime wall() const override { return WallTime(elapsed_); }
  void advance(Nanos d) { elapsed_ += d; }

 private:
  Nanos elapsed_{0};
};

}  // namespace llmd
