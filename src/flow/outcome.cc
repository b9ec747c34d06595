#include "flow/outcome.h"

#include <fmt/format.h>

#include <array>

namespace llmd::flow {
namespace {

constexpr std::string_view kPreQueue = "request rejected pre-queue";
constexpr std::string_view kInQueue = "request evicted from queue";

Error error(Code code, std::string_view prefix, std::string_view where, std::string_view why,
            std::string_view reason) {
  return {code, fmt::format("{}{}: {}", prefix, where, why), std::string(reason)};
}

Error expired(bool pool_empty) {
  constexpr std::string_view kWhy = "request TTL expired";
  if (pool_empty)
    return error(Code::kServiceUnavailable,
                 "request timed out in queue and no endpoints are available: ", kInQueue, kWhy,
                 "rejected-no-endpoints");
  return error(Code::kResourceExhausted, "request timed out in queue: ", kInQueue, kWhy,
               "rejected-ttl-expired");
}

Error stopped(std::string_view where) {
  return error(Code::kServiceUnavailable, "flow controller shutting down: ", where,
               "flow controller is not running", "rejected-shutting-down");
}

}  // namespace

std::string_view outcome_name(Outcome outcome) {
  constexpr std::array<std::string_view, kOutcomes> kNames = {
      "NotYetFinalized", "Dispatched",      "RejectedCapacity",   "RejectedNoEndpoints",
      "RejectedOther",   "EvictedTTL",      "EvictedNoEndpoints", "EvictedContextCancelled",
      "EvictedOther",    "RejectedDeadline"};
  return kNames[static_cast<size_t>(outcome)];
}

Error refusal(Outcome outcome, bool pool_empty) {
  switch (outcome) {
    case Outcome::kRejectedCapacity:
      return error(Code::kResourceExhausted, "", kPreQueue, "queue at capacity",
                   "rejected-saturated");
    case Outcome::kRejectedNoEndpoints:
      return error(Code::kServiceUnavailable, "no endpoints available: ", kPreQueue,
                   "no endpoints available", "rejected-no-endpoints");
    case Outcome::kEvictedNoEndpoints:
      return error(Code::kServiceUnavailable,
                   "request timed out in queue and no endpoints are available: ", kInQueue,
                   "no endpoints available", "rejected-no-endpoints");
    case Outcome::kEvictedTtl:
      return expired(pool_empty);
    case Outcome::kEvictedContextCancelled:
      return error(Code::kServiceUnavailable, "client disconnected: ", kInQueue,
                   "request context cancelled", "rejected-context-cancelled");
    case Outcome::kRejectedDeadline:
      return error(Code::kResourceExhausted, "deadline cannot be met: ", kPreQueue,
                   "expected wait is too long", "rejected-deadline");
    case Outcome::kRejectedOther:
      return stopped(kPreQueue);
    default:
      return stopped(kInQueue);
  }
}

}  // namespace llmd::flow
