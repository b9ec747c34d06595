#include "request_log.h"

#include "base/log.h"

#include <array>

namespace llmd::route {

using schedule::EndCause;

namespace {

std::string_view name_of(const fleet::Endpoint* endpoint) {
  return endpoint ? endpoint->host_port() : std::string_view{};
}

std::string_view cause_name(EndCause cause) {
  constexpr std::array<std::string_view, 6> kNames = {
      "natural", "client-disconnect", "client-stalled", "evicted", "shutdown", "error"};
  return kNames[static_cast<size_t>(cause)];
}

}  // namespace

Error describe(EndCause cause) {
  switch (cause) {
    case EndCause::kClientDisconnect:
      return {Code::kUnknown, "the client left", {}};
    case EndCause::kClientStalled:
      return {Code::kUnknown, "the client took nothing of its answer", {}};
    case EndCause::kShutdown:
      return {Code::kServiceUnavailable, "cut off by the shutdown", {}};
    default:
      return {Code::kUnknown, "ended early", {}};
  }
}

void log_served(const schedule::RequestContext& c, const request::RequestView& view,
                const Served& served, const ResponseMeter& meter) {
  if (!log::enabled(log::Level::kInfo)) return;
  const request::Usage u = meter.usage();
  log::info("request", {{"x-request-id", c.request_id},
                        {"path", c.path},
                        {"model", view.model},
                        {"endpoint", served.endpoint.host_port()},
                        {"status", served.status},
                        {"prompt_tokens", u.prompt_tokens},
                        {"cached_tokens", u.cached_tokens.value_or(0)},
                        {"completion_tokens", u.completion_tokens},
                        {"decide_s", seconds(served.decided - c.received)},
                        {"ttft_s", seconds(meter.ttft())},
                        {"total_s", seconds(served.ended - c.received)}});
}

void log_refused(const schedule::RequestContext& c, const request::RequestView& view,
                 const fleet::Endpoint* endpoint, int status, std::string_view reason,
                 std::string_view error) {
  log::info("request refused", {{"x-request-id", c.request_id},
                                {"path", c.path},
                                {"model", view.model},
                                {"endpoint", name_of(endpoint)},
                                {"status", status},
                                {"reason", reason},
                                {"error", error}});
}

void log_degraded(const schedule::RequestContext& c, std::string_view plugin,
                  std::string_view why) {
  log::warn("producer failed or was late; scheduling with what it left",
            {{"plugin", plugin}, {"x-request-id", c.request_id}, {"error", why}});
}

void log_retried(const schedule::RequestContext& c, const fleet::Endpoint& endpoint,
                 UpstreamFailure failure, size_t tries) {
  log::info("endpoint failed, choosing again", {{"x-request-id", c.request_id},
                                                {"endpoint", endpoint.host_port()},
                                                {"cause", failure_name(failure)},
                                                {"try", tries},
                                                {"seconds", seconds(c.clock.now() - c.received)}});
}

void log_aborted(const schedule::RequestContext& c, const request::RequestView& view,
                 const fleet::Endpoint* endpoint, State state, schedule::EndCause cause) {
  log::info("request aborted", {{"x-request-id", c.request_id},
                                {"path", c.path},
                                {"model", view.model},
                                {"endpoint", name_of(endpoint)},
                                {"state", state_name(state)},
                                {"cause", cause_name(cause)},
                                {"seconds", seconds(c.clock.now() - c.received)}});
}

}  // namespace llmd::route
