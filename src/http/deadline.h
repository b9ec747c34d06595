#pragma once

#include "io/loop.h"

namespace llmd::http {

/// A time-out that is moved far more often than it expires: moving it later, or off, is a store.
/// The timer behind it fires at the earliest time ever asked for and is then armed again for what
/// is left. Threading: one loop.
class Deadline {
 public:
  /// `on_expire` may destroy the deadline.
  Deadline(io::Loop& loop, std::move_only_function<void()> on_expire)
      : loop_(loop), timer_(loop), on_expire_(std::move(on_expire)) {}

  /// Counts from the current turn. A delay of 0 means never.
  void set(Nanos delay) {
    at_ = delay > Nanos(0) ? loop_.turn_time() + delay : TimePoint::max();
    if (at_ == TimePoint::max() || (timer_.armed() && timer_at_ <= at_)) return;
    arm();
  }
  void clear() { at_ = TimePoint::max(); }

 private:
  void arm() {
    timer_at_ = at_;
    timer_.arm(at_ - loop_.clock().now(), [this] { fired(); });
  }
  void fired() {
    if (at_ == TimePoint::max()) return;
    if (loop_.clock().now() < at_) return arm();
    at_ = TimePoint::max();
    on_expire_();
  }

  io::Loop& loop_;
  TimePoint at_ = TimePoint::max();
  TimePoint timer_at_{};
  io::Timer timer_;
  std::move_only_function<void()> on_expire_;
};

}  // namespace llmd::http
