#pragma once

#include "base/clock.h"

#include <cmath>
#include <cstdint>

namespace llmd::flow {

/// How fast work leaves the queue while some waits: tokens a second over the last seconds.
/// Threading: one thread.
class DrainRate {
 public:
  static constexpr double kMemorySeconds = 10;

  /// Time has passed in which something waited.
  void pass(Nanos time) {
    const double s = seconds(time);
    const double fade = std::exp(-s / kMemorySeconds);
    tokens_ *= fade;
    seconds_ = seconds_ * fade + s;
  }
  void add(int64_t tokens) { tokens_ += static_cast<double>(tokens); }

  /// 0: not known yet.
  double per_second() const { return seconds_ >= kLeastSeconds ? tokens_ / seconds_ : 0; }
  /// How long so much takes; 0: not known.
  Nanos time_for(int64_t tokens) const {
    constexpr double kMost = 3600;
    const double rate = per_second();
    if (rate <= 0) return Nanos(0);
    const double s = std::min(static_cast<double>(tokens) / rate, kMost);
    return std::chrono::duration_cast<Nanos>(std::chrono::duration<double>(s));
  }

 private:
  static constexpr double kLeastSeconds = 0.1;
  double tokens_ = 0;
  double seconds_ = 0;
};

}  // namespace llmd::flow
