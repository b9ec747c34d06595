#include "flow/service.h"

namespace llmd::flow {

Service::Service(size_t index, uint64_t seed, const Clock& clock, fleet::Fleet& fleet,
                 metric::Registry& metrics, const std::string& pool)
    : controller_(clock, metrics, pool),
      thread_("flow-control", index, seed, clock),
      alarm_(thread_.loop()) {
  controller_.attach(
      {.wake = [this] { thread_.loop().post([this] { controller_.run(); }); },
       .alarm = [this](Nanos delay) { alarm_.arm(delay, [this] { controller_.run(); }); }});
  controller_.follow(fleet);
  thread_.start();
}

void Service::stop() {
  thread_.stop();
  alarm_.cancel();
  controller_.retire();
}

}  // namespace llmd::flow
