#pragma once

#include "response_meter.h"
#include "session_states.h"

#include "base/result.h"
#include "route/retry.h"
#include "schedule/request_context.h"

#include <string_view>

/// The line that each request leaves in the log, at level info.
namespace llmd::route {

struct Served {
  const fleet::Endpoint& endpoint;
  int status;
  TimePoint decided, ended;
};
void log_served(const schedule::RequestContext& c, const request::RequestView& view,
                const Served& served, const ResponseMeter& meter);
/// `endpoint`: that it was sent to last; null: to none.
void log_refused(const schedule::RequestContext& c, const request::RequestView& view,
                 const fleet::Endpoint* endpoint, int status, std::string_view reason,
                 std::string_view error);
/// The line of a try that failed and is followed by another.
void log_retried(const schedule::RequestContext& c, const fleet::Endpoint& endpoint,
                 UpstreamFailure failure, size_t tries);
/// The line of a producer whose data a decision does without.
void log_degraded(const schedule::RequestContext& c, std::string_view plugin, std::string_view why);
/// What ended a request that was neither answered nor refused.
Error describe(schedule::EndCause cause);
void log_aborted(const schedule::RequestContext& c, const request::RequestView& view,
                 const fleet::Endpoint* endpoint, State state, schedule::EndCause cause);

}  // namespace llmd::route
