#pragma once

#include "flow/controller.h"
#include "io/loop_thread.h"

#include <functional>
#include <memory>
#include <string>

namespace llmd::flow {

/// Flow control with a dispatcher on a thread of its own, which starts with it. Threading:
/// construct, stop and destroy on one thread.
class Service {
 public:
  /// `index`: of the dispatcher's loop, among those of the process.
  Service(size_t index, uint64_t seed, const Clock& clock, fleet::Fleet& fleet,
          metric::Registry& metrics, const std::string& pool);
  ~Service() { stop(); }

  Controller& controller() { return controller_; }
  /// Nobody is woken any more. Idempotent.
  void stop();

 private:
  Controller controller_;
  io::LoopThread thread_;
  io::Timer alarm_;
};

/// Where a configuration finds the flow control of its process: a StateStore entry. `get` makes it
/// at the first call.
struct ControllerSlot {
  static constexpr std::string_view kName = "flow-control";
  std::function<Controller&()> get;
};

}  // namespace llmd::flow
