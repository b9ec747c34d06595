#include "flow/outcome.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace llmd::flow {
namespace {

/// "STATUS CODE - message [reason]"
std::string told(Outcome outcome, bool pool_empty = false) {
  const Error error = refusal(outcome, pool_empty);
  return fmt::format("{} {} - {} [{}]", http_status(error.code), code_name(error.code),
                     error.message, error.drop_reason);
}

TEST(Outcome, IsToldByTheTable) {
  EXPECT_EQ(told(Outcome::kRejectedCapacity),
            "429 ResourceExhausted - request rejected pre-queue: queue at capacity "
            "[rejected-saturated]");
  EXPECT_EQ(told(Outcome::kRejectedNoEndpoints),
            "503 ServiceUnavailable - no endpoints available: request rejected pre-queue: no "
            "endpoints available [rejected-no-endpoints]");
  EXPECT_EQ(told(Outcome::kEvictedNoEndpoints),
            "503 ServiceUnavailable - request timed out in queue and no endpoints are available: "
            "request evicted from queue: no endpoints available [rejected-no-endpoints]");
  EXPECT_EQ(told(Outcome::kEvictedTtl),
            "429 ResourceExhausted - request timed out in queue: request evicted from queue: "
            "request TTL expired [rejected-ttl-expired]");
  EXPECT_EQ(told(Outcome::kEvictedTtl, true),
            "503 ServiceUnavailable - request timed out in queue and no endpoints are available: "
            "request evicted from queue: request TTL expired [rejected-no-endpoints]");
  EXPECT_EQ(told(Outcome::kEvictedContextCancelled),
            "503 ServiceUnavailable - client disconnected: request evicted from queue: request "
            "context cancelled [rejected-context-cancelled]");
  EXPECT_EQ(told(Outcome::kEvictedOther),
            "503 ServiceUnavailable - flow controller shutting down: request evicted from queue: "
            "flow controller is not running [rejected-shutting-down]");
  EXPECT_EQ(told(Outcome::kRejectedOther),
            "503 ServiceUnavailable - flow controller shutting down: request rejected pre-queue: "
            "flow controller is not running [rejected-shutting-down]");
}

TEST(Outcome, HasTheNamesOfTheContract) {
  EXPECT_EQ(outcome_name(Outcome::kNotYetFinalized), "NotYetFinalized");
  EXPECT_EQ(outcome_name(Outcome::kDispatched), "Dispatched");
  EXPECT_EQ(outcome_name(Outcome::kEvictedTtl), "EvictedTTL");
  EXPECT_EQ(outcome_name(Outcome::kEvictedContextCancelled), "EvictedContextCancelled");
}

}  // namespace
}  // namespace llmd::flow
