#include "flow/policies.h"
#include "plugin/registry.h"

namespace llmd::plugins {
namespace {

using flow::Flow;

/// Flows by the key of their first request.
class GlobalStrictPicker final : public flow::FlowPicker {
 public:
  void add(Flow& flow) override { heads_.push(flow.head_key(), flow); }
  void remove(Flow& flow) override { heads_.remove(flow); }
  void head_changed(Flow& flow) override { heads_.update(flow.head_key(), flow); }
  Flow* pick(TimePoint) override { return heads_.empty() ? nullptr : &heads_.top(); }

 private:
  flow::IndexedHeap<flow::OrderKey, Flow, &Flow::rank> heads_;
};

class GlobalStrictFairnessPolicy final : public flow::FairnessPolicy {
 public:
  std::unique_ptr<flow::FlowPicker> make_picker() const override {
    return std::make_unique<GlobalStrictPicker>();
  }
  bool by_flow() const override { return false; }
};

}  // namespace

const plugin::Descriptor& global_strict_fairness_policy() {
  static const auto descriptor = plugin::describe<GlobalStrictFairnessPolicy>(
      {.type = "global-strict-fairness-policy",
       .kind = "fairness policy",
       .summary = "The order of requests counts, whoever sent them: no tenant is protected from "
                  "another."});
  return descriptor;
}

}  // namespace llmd::plugins
