#include "decision_keeper.h"

namespace llmd::route {
namespace {

using schedule::TryOutcome;

/// Of the try that follows those that failed.
TryOutcome next_try(const Attempts& attempts, TimePoint now) {
  TryOutcome outcome{.at = now, .number = static_cast<uint16_t>(attempts.tries() + 1)};
  if (attempts.any()) outcome.after = failure_name(attempts.last_failure());
  return outcome;
}

void set_answer(TryOutcome& outcome, const Error& error, int status) {
  outcome.status = static_cast<uint16_t>(status);
  outcome.code = error.code;
  outcome.error = error.message;
  outcome.drop_reason = error.drop_reason;
}

}  // namespace

void DecisionKeeper::sent(const schedule::RequestContext& c, const schedule::Pipeline* pipeline,
                          const Attempts& attempts, const fleet::Endpoint& target,
                          TimePoint now) const {
  if (!history_) return;
  TryOutcome outcome = next_try(attempts, now);
  outcome.target = &target;
  history_->add(c, pipeline, outcome);
}

void DecisionKeeper::served(const schedule::RequestContext& c, const schedule::Pipeline* pipeline,
                            const Attempts& attempts, const fleet::Endpoint& by) const {
  if (!history_) return;
  TryOutcome outcome = next_try(attempts, c.clock.now());
  outcome.target = &by;
  outcome.decided = false;
  history_->add(c, pipeline, outcome);
}

void DecisionKeeper::refused(const schedule::RequestContext& c, const schedule::Pipeline* pipeline,
                             const Attempts& attempts, const Error& error, int status) const {
  if (!history_) return;
  TryOutcome outcome = next_try(attempts, c.clock.now());
  set_answer(outcome, error, status);
  history_->add(c, pipeline, outcome);
}

void DecisionKeeper::answered(const schedule::RequestContext& c, const schedule::Pipeline* pipeline,
                              size_t number, const Error& error, int status) const {
  if (!history_) return;
  TryOutcome outcome{
      .at = c.clock.now(), .number = static_cast<uint16_t>(number), .decided = false};
  set_answer(outcome, error, status);
  history_->add(c, pipeline, outcome);
}

}  // namespace llmd::route
