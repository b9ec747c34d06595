#include "flow/policies.h"
#include "plugin/registry.h"

namespace llmd::plugins {
namespace {

class SloDeadlineOrderingPolicy final : public flow::OrderingPolicy {
 public:
  flow::OrderKey key(const flow::Waiter& waiter) const override {
    return {.first = waiter.deadline, .tie = waiter.received.time_since_epoch().count()};
  }
};

}  // namespace

const plugin::Descriptor& slo_deadline_ordering_policy() {
  static const auto descriptor = plugin::describe<SloDeadlineOrderingPolicy>(
      {.type = "slo-deadline-ordering-policy",
       .kind = "ordering policy",
       .summary = "The request whose first token is due first goes first: its arrival plus the "
                  "milliseconds in `x-llm-d-slo-ttft-ms`. Those without the header go last, in the "
                  "order in which they came."});
  return descriptor;
}

}  // namespace llmd::plugins
