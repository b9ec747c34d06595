#include "flow/policies.h"
#include "plugin/registry.h"

#include <boost/intrusive/set.hpp>

#include <string>
#include <string_view>

namespace llmd::plugins {
namespace {

using flow::Flow;

struct IdOf {
  using type = std::string;
  const std::string& operator()(const Flow& flow) const { return flow.id; }
};

/// Flows that wait, by id. The turn passes on from the last one that went, also when that has
/// nothing more or comes back.
class RoundRobinPicker final : public flow::FlowPicker {
 public:
  ~RoundRobinPicker() override { flows_.clear(); }

  void add(Flow& flow) override {
    const auto at = flows_.insert(flow).first;
    if (flow.id > last_ && (next_ == flows_.end() || flow.id < next_->id)) next_ = at;
  }
  void remove(Flow& flow) override {
    const auto at = flows_.iterator_to(flow);
    if (next_ == at) ++next_;
    flows_.erase(at);
  }
  Flow* pick(TimePoint) override {
    if (flows_.empty()) return nullptr;
    return next_ == flows_.end() ? &*flows_.begin() : &*next_;
  }
  void dispatched(Flow& flow, const flow::Waiter&) override {
    last_ = flow.id;
    next_ = std::next(flows_.iterator_to(flow));
  }

 private:
  using Hook =
      boost::intrusive::member_hook<Flow, boost::intrusive::set_member_hook<>, &Flow::by_id>;
  using Flows = boost::intrusive::set<Flow, Hook, boost::intrusive::key_of_value<IdOf>>;
  Flows flows_;
  Flows::iterator next_ = flows_.end();  // the first after the last that went, if there is one
  std::string last_;
};

class RoundRobinFairnessPolicy final : public flow::FairnessPolicy {
 public:
  std::unique_ptr<flow::FlowPicker> make_picker() const override {
    return std::make_unique<RoundRobinPicker>();
  }
};

}  // namespace

const plugin::Descriptor& round_robin_fairness_policy() {
  static const auto descriptor = plugin::describe<RoundRobinFairnessPolicy>(
      {.type = "round-robin-fairness-policy",
       .kind = "fairness policy",
       .summary = "Tenants take turns, one request each, in the order of their ids."});
  return descriptor;
}

}  // namespace llmd::plugins
