#include "flow/policies.h"
#include "plugin/registry.h"

namespace llmd::plugins {
namespace {

class EdfOrderingPolicy final : public flow::OrderingPolicy {
 public:
  flow::OrderKey key(const flow::Waiter& waiter) const override {
    const int64_t enqueued = waiter.enqueued.time_since_epoch().count();
    const bool ends = waiter.ttl > Nanos(0) && waiter.ttl.count() < flow::kNever - enqueued;
    return {.first = ends ? enqueued + waiter.ttl.count() : flow::kNever, .tie = enqueued};
  }
};

}  // namespace

const plugin::Descriptor& edf_ordering_policy() {
  static const auto descriptor = plugin::describe<EdfOrderingPolicy>(
      {.type = "edf-ordering-policy",
       .kind = "ordering policy",
       .summary = "The request that would be given up first goes first; those that wait for ever "
                  "go last. The same as first come, first served, unless clients give their "
                  "requests times of their own (`flowControl.requestTTLHeader`)."});
  return descriptor;
}

}  // namespace llmd::plugins
