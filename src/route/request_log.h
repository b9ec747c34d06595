#pragma once

#include "response_meter.h"
#include "session_states.h"

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
/// What ended a request that was neither answered nor refused.
std::string_view describe(schedule::EndCause cause);
void log_aborted(const schedule::RequestContext& c, const request::RequestView& view,
                 const fleet::Endpoint* endpoint, State state, schedule::EndCause cause);

}  // namespace llmd::route
