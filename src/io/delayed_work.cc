#include "io/delayed_work.h"

namespace llmd::io {

void DelayedWork::run_after(Nanos delay, std::move_only_function<void()> work) {
  timers_.emplace_front(loop_);
  const auto self = timers_.begin();
  self->arm(delay, [this, self, run = std::move(work)]() mutable {
    auto now = std::move(run);
    timers_.erase(self);
    now();
  });
}

}  // namespace llmd::io
