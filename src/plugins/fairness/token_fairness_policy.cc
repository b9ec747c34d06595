#include "flow/policies.h"
#include "plugin/registry.h"

#include <algorithm>
#include <compare>
#include <map>
#include <string>
#include <vector>

namespace llmd::plugins {
namespace {

using flow::Flow;

struct Weight {
  std::string tenant;
  double weight = 1;
};
struct Params {
  std::vector<Weight> weights;
};

const plugin::Params<Params>& table() {
  static const plugin::Params<Weight> weight = {
      plugin::field("fairnessId", &Weight::tenant, "", "The tenant."),
      plugin::field("weight", &Weight::weight, "",
                    "Its share, where a tenant that is not listed has 1.")
          .positive(),
  };
  static const plugin::Params<Params> params = {
      plugin::list_field("weights", &Params::weights, weight, "Tenants with a share of their own."),
  };
  return params;
}

using Weights = std::map<std::string, double, std::less<>>;

/// Each flow has a virtual time that grows by the work it is given, over its weight. The flow goes
/// whose first request would be half through earliest, so that at any moment each has been given
/// its share to within half a request. A flow that comes back starts where the others are: waiting
/// for nothing earns nothing.
class TokenPicker final : public flow::FlowPicker {
 public:
  explicit TokenPicker(const Weights& weights) : weights_(weights) {}

  void add(Flow& flow) override {
    flow.served = std::max(flow.served, now_);
    flows_.push(key_of(flow), flow);
  }
  void remove(Flow& flow) override { flows_.remove(flow); }
  void head_changed(Flow& flow) override { flows_.update(key_of(flow), flow); }
  Flow* pick(TimePoint) override { return flows_.empty() ? nullptr : &flows_.top(); }
  void dispatched(Flow& flow, const flow::Waiter& waiter) override {
    now_ = flow.served;
    flow.served += cost(flow, waiter);
  }

 private:
  struct Key {
    double middle = 0;
    uint64_t sequence = 0;
    auto operator<=>(const Key&) const = default;
  };
  Key key_of(const Flow& flow) const {
    return {flow.served + cost(flow, flow.head()) / 2, flow.head_key().sequence};
  }
  double cost(const Flow& flow, const flow::Waiter& waiter) const {
    return static_cast<double>(std::max<int64_t>(waiter.tokens, 1)) / weight_of(flow);
  }
  double weight_of(const Flow& flow) const {
    if (weights_.empty()) return 1;
    const auto own = weights_.find(flow.id);
    return own == weights_.end() ? 1 : own->second;
  }

  const Weights& weights_;
  flow::IndexedHeap<Key, Flow, &Flow::rank> flows_;
  double now_ = 0;
};

class TokenFairnessPolicy final : public flow::FairnessPolicy {
 public:
  TokenFairnessPolicy(const Params& params, const plugin::Context&) {
    for (const auto& [tenant, weight] : params.weights) weights_[tenant] = weight;
  }
  std::unique_ptr<flow::FlowPicker> make_picker() const override {
    return std::make_unique<TokenPicker>(weights_);
  }

 private:
  Weights weights_;
};

}  // namespace

const plugin::Descriptor& token_fairness_policy() {
  static const auto descriptor = plugin::describe<TokenFairnessPolicy>(
      {.type = "token-fairness-policy",
       .kind = "fairness policy",
       .summary = "Tenants share the pool by work: tokens of prompts and expected answers, not "
                  "requests, by weight."},
      table());
  return descriptor;
}

}  // namespace llmd::plugins
