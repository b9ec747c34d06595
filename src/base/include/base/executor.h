#pragma once

#include <functional>

namespace llmd {

/// Where deferred work runs: an event loop in production, a step queue in tests and in virtual
/// time. Threading: post() may be called from any thread; the work runs on the executor's own
/// thread, in order of posting.
class Executor {
 public:
  virtual ~Executor() = default;
  virtual void post(std::move_only_function<void()> work) = 0;
};

}  // namespace llmd
