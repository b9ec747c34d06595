#pragma once

#include "base/result.h"
#include "route/retry.h"
#include "schedule/decision_history.h"
#include "schedule/pipeline.h"
#include "schedule/request_context.h"

namespace llmd::route {

/// What a session leaves in its loop's history of decisions; nothing where there is none.
/// Threading: one loop.
class DecisionKeeper {
 public:
  /// `history` may be null.
  explicit DecisionKeeper(schedule::DecisionHistory* history) : history_(history) {}

  /// Fresh notes for a try; the time of its first stage begins.
  void begin_try(schedule::RequestContext& c) const {
    if (history_) c.notes = c.arena.make<schedule::DecisionNotes>();
  }
  /// Fresh notes for the same try: how it has waited stays.
  void decide_anew(schedule::RequestContext& c) const {
    if (!history_) return;
    constexpr auto kAdmit = static_cast<size_t>(schedule::Stage::kAdmit);
    const auto& before = *c.notes;
    begin_try(c);
    c.notes->stages[kAdmit] = before.stages[kAdmit];
    c.notes->wait = before.wait;
  }
  static void end_stage(const schedule::RequestContext& c, schedule::Stage stage) {
    if (c.notes) c.notes->lap(stage);
  }

  /// The try goes to `target`.
  void sent(const schedule::RequestContext& c, const schedule::Pipeline* pipeline,
            const Attempts& attempts, const fleet::Endpoint& target, TimePoint now) const;
  /// The proxy in front says that `by` answers the try in place of its target.
  void served(const schedule::RequestContext& c, const schedule::Pipeline* pipeline,
              const Attempts& attempts, const fleet::Endpoint& by) const;
  /// The try got no endpoint. `status`: what the client is told; 0: it had left.
  void refused(const schedule::RequestContext& c, const schedule::Pipeline* pipeline,
               const Attempts& attempts, const Error& error, int status) const;
  /// refused() for a request that never went out, answered() for one whose last try has failed.
  void ended(const schedule::RequestContext& c, const schedule::Pipeline* pipeline,
             const Attempts& attempts, const Error& error, int status) const {
    if (attempts.any()) return answered(c, pipeline, attempts.tries(), error, status);
    refused(c, pipeline, attempts, error, status);
  }
  /// The client is told of a fault after its request had gone out, last in try number `number`.
  void answered(const schedule::RequestContext& c, const schedule::Pipeline* pipeline,
                size_t number, const Error& error, int status) const;

 private:
  schedule::DecisionHistory* const history_;
};

}  // namespace llmd::route
