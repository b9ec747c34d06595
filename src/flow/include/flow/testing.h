#pragma once

#include "fleet/fleet.h"
#include "flow/policies.h"
#include "flow/settings.h"
#include "flow/waiter.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <utility>

/// For tests of flow control: the least of every kind of policy, and waiters.
namespace llmd::flow::testing {

class ByArrival final : public OrderingPolicy {
 public:
  OrderKey key(const Waiter& waiter) const override {
    return {.first = waiter.enqueued.time_since_epoch().count()};
  }
};

/// The first request of all.
class Strict final : public FairnessPolicy {
  class Picker final : public FlowPicker {
   public:
    void add(Flow& flow) override { heads_.push(flow.head_key(), flow); }
    void remove(Flow& flow) override { heads_.remove(flow); }
    void head_changed(Flow& flow) override { heads_.update(flow.head_key(), flow); }
    Flow* pick(TimePoint) override { return heads_.empty() ? nullptr : &heads_.top(); }

   private:
    IndexedHeap<OrderKey, Flow, &Flow::rank> heads_;
  };

 public:
  std::unique_ptr<FlowPicker> make_picker() const override { return std::make_unique<Picker>(); }
  bool by_flow() const override { return false; }
};

/// One ceiling for all, or one for each of the first bands.
class Ceilings final : public UsageLimitPolicy {
 public:
  void compute(double, std::span<const int32_t>, TimePoint,
               std::span<double> ceilings) const override {
    ++calls;
    for (size_t i = 0; i < std::min(ceilings.size(), values.size()); ++i) ceilings[i] = values[i];
  }
  std::vector<double> values;
  mutable int calls = 0;
};

/// As full as a test says; every request that is let in adds `each`.
class SetDetector final : public schedule::SaturationDetector {
 public:
  double saturation(std::span<const schedule::Candidate> candidates, TimePoint) const override {
    sizes.push_back(candidates.size());
    return candidates.empty() ? 1.0 : value.load();
  }
  double step(size_t endpoints, int64_t) const override {
    shared_by = endpoints;
    return each;
  }
  std::atomic<double> value{0};
  double each = 0;
  mutable std::vector<size_t> sizes;         // of what it was asked about
  mutable std::atomic<size_t> shared_by{0};  // endpoints, of the last step
};

/// Policies and settings with bands 10, 0 and -1.
struct Policies {
  ByArrival ordering;
  Strict fairness;
  Ceilings usage;
  SetDetector detector;

  BandSettings band(int32_t priority, Limits limits = {}) const {
    return {.priority = priority, .limits = limits, .ordering = &ordering, .fairness = &fairness};
  }
  Settings settings() const {
    Settings settings;
    for (const int32_t priority : {10, 0, -1}) settings.bands.push_back(band(priority));
    settings.other = band(0);
    settings.usage = &usage;
    settings.detector = &detector;
    return settings;
  }
};

inline TimePoint at(Nanos since_epoch) {
  return TimePoint(since_epoch);
}

inline std::unique_ptr<Waiter> waiter(TimePoint when, std::string_view flow = "A",
                                      int32_t priority = 0, int64_t bytes = 1) {
  auto made = std::make_unique<Waiter>();
  made->fairness_id = flow;
  made->priority = priority;
  made->bytes = bytes;
  made->tokens = 1;
  made->prompt_tokens = 1;
  made->received = made->enqueued = when;
  made->ttl = Settings::kDefaultTtl;
  return made;
}

/// Endpoints "e0", "e1", … with a role each; "": no label.
inline void set_fleet(fleet::Fleet& fleet, const std::vector<std::string>& roles) {
  std::vector<fleet::EndpointSpec> specs;
  for (size_t i = 0; i < roles.size(); ++i) {
    auto& spec = specs.emplace_back();
    spec.name = "e" + std::to_string(i);
    spec.address = "10.0.0.1";
    spec.port = static_cast<uint16_t>(8000 + i);
    if (!roles[i].empty()) spec.labels = {{"llm-d.ai/role", roles[i]}};
  }
  fleet.set(std::move(specs));
}

}  // namespace llmd::flow::testing
