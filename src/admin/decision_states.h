#pragma once

#include "base/clock.h"
#include "base/result.h"
#include "schedule/decision_history.h"

#include <span>
#include <string>
#include <string_view>

namespace llmd::admin {

/// Decisions of GET /debug/decisions: the newest `limit` ones, or those of `request_id`. Errors are
/// one line that names the parameter, its value and what is allowed.
Result<schedule::DecisionQuery> parse_decision_query(std::string_view query);

/// {"decisions": [...]}, in the order given; `whole`: with candidates and profiles. The fields are
/// explained in docs/operations.md.
std::string decision_states(std::span<const schedule::KeptDecision> decisions, bool whole,
                            const Clock& clock);

}  // namespace llmd::admin
