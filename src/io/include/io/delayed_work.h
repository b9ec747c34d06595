#pragma once

#include "io/loop.h"

#include <functional>
#include <list>

namespace llmd::io {

/// Work for later on one loop, each piece with a timer of its own. Work that still waits is
/// destroyed with this object, without having run. Threading: the loop's thread.
class DelayedWork {
 public:
  explicit DelayedWork(Loop& loop) : loop_(loop) {}
  void run_after(Nanos delay, std::move_only_function<void()> work);

 private:
  Loop& loop_;
  std::list<Timer> timers_;
};

}  // namespace llmd::io
