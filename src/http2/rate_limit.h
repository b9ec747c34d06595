#pragma once

#include "base/clock.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace llmd::http2 {

/// A token bucket: `per_second` on average, ten times that at once. Threading: one loop.
class RateLimit {
 public:
  RateLimit(uint32_t per_second, TimePoint now)
      : per_second_(per_second), tokens_(static_cast<double>(burst())), at_(now) {}

  /// How many pass at once.
  size_t burst() const { return size_t{10} * per_second_; }

  /// Takes a token; false when there is none.
  bool pass(TimePoint now) {
    tokens_ = std::min(static_cast<double>(burst()), tokens_ + seconds(now - at_) * per_second_);
    at_ = now;
    if (tokens_ < 1) return false;
    tokens_ -= 1;
    return true;
  }

 private:
  uint32_t per_second_;
  double tokens_;
  TimePoint at_;
};

}  // namespace llmd::http2
