#pragma once

#include "base/clock.h"
#include "metric/registry.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace llmd::flow {

class Controller;
class Queues;

/// The gauges of spec 04 §2.4 that are computed when the page is asked for: how full the pool is,
/// and the queues. Threading: whoever renders the page.
class ControllerGauges {
 public:
  ControllerGauges(Controller& controller, const Clock& clock, metric::Registry& metrics,
                   std::string pool);

 private:
  void show_pool();
  void show_queues(const Queues& queues);
  void show_global(metric::Family& family, int64_t waiting, int64_t most);

  Controller& controller_;
  const Clock& clock_;
  const std::string pool_;
  metric::Family& saturation_;
  metric::Family& requests_;
  metric::Family& bytes_;
  metric::Family& all_requests_;
  metric::Family& all_bytes_;
  std::vector<int32_t> exposed_;  // priorities
  std::shared_ptr<void> collector_;
};

}  // namespace llmd::flow
