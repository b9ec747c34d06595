#pragma once

#include "base/clock.h"

#include <algorithm>
#include <cstdint>

namespace llmd::grpc {

/// A token bucket: `per_second` on average, ten times that at once. Threading: one loop.
class RateLimit {
 public:
  RateLimit(uint32_t per_second, TimePoint now)
      : per_second_(per_second), tokens_(burst()), at_(now) {}

  /// Takes a token; false when there is none.
  bool pass(TimePoint now) {
    tokens_ = std::min(burst(), tokens_ + seconds(now - at_) * per_second_);
    at_ = now;
    if (tokens_ < 1) return false;
    tokens_ -= 1;
    return true;
  }

 private:
  double burst() const { return 10 * per_second_; }

  double per_second_;
  double tokens_;
  TimePoint at_;
};

}  // namespace llmd::grpc
