#pragma once

#include "flow/waiter.h"
#include "schedule/interfaces.h"

#include <memory>
#include <span>

/// The seams of flow control. Policies are plugins: immutable, called from the dispatcher.
namespace llmd::flow {

/// The order of requests within a flow, and between flows where a fairness policy asks for it.
class OrderingPolicy : public virtual schedule::Wired {
 public:
  /// Small is early. The sequence is the caller's.
  virtual OrderKey key(const Waiter& waiter) const = 0;
};

/// Says which flow of a band goes next. One object a band. Threading: the dispatcher's.
class FlowPicker {
 public:
  virtual ~FlowPicker() = default;
  /// A request of the flow waits, which none did before.
  virtual void add(Flow& flow) = 0;
  /// No request of the flow waits any more.
  virtual void remove(Flow& flow) = 0;
  /// Another of the flow's requests is its first now.
  virtual void head_changed(Flow&) {}
  /// The flow whose first request goes next; null: none waits.
  virtual Flow* pick(TimePoint now) = 0;
  /// The request that was picked goes. Comes before it leaves the flow.
  virtual void dispatched(Flow&, const Waiter&) {}
};

class FairnessPolicy : public virtual schedule::Wired {
 public:
  virtual std::unique_ptr<FlowPicker> make_picker() const = 0;
  /// Whether flows take turns; else requests go by their order, whoever sent them.
  virtual bool by_flow() const { return true; }
};

/// How full the pool may be for each band to be let in.
class UsageLimitPolicy : public virtual schedule::Wired {
 public:
  /// `priorities` descends; `ceilings` is parallel to it and 1.0 on entry. `now` is the time base
  /// of policies that open and close: a tick is a millisecond.
  virtual void compute(double saturation, std::span<const int32_t> priorities, TimePoint now,
                       std::span<double> ceilings) const = 0;
};

}  // namespace llmd::flow
