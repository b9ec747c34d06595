#include "flow/policies.h"
#include "plugin/registry.h"

namespace llmd::plugins {
namespace {

class FcfsOrderingPolicy final : public flow::OrderingPolicy {
 public:
  flow::OrderKey key(const flow::Waiter& waiter) const override {
    return {.first = waiter.enqueued.time_since_epoch().count()};
  }
};

}  // namespace

const plugin::Descriptor& fcfs_ordering_policy() {
  static const auto descriptor = plugin::describe<FcfsOrderingPolicy>(
      {.type = "fcfs-ordering-policy",
       .kind = "ordering policy",
       .summary = "Requests go in the order in which they came."});
  return descriptor;
}

}  // namespace llmd::plugins
