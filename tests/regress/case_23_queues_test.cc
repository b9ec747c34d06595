#include "flow_stage.h"

#include <gtest/gtest.h>

namespace llmd::regress {
namespace {

using namespace std::chrono_literals;

/// llm-d-router#1735, #2046, #2097, GIE#2103: the rows of requests that wait in a queue. 429 says
/// that there are servers and they are busy, 503 that nobody can serve.
struct Case23Queues : ::testing::Test {
  static std::string config() {
    return places(1,
                  "  defaultRequestTTL: 10s\n  noEndpointRequestTTL: 5s\n"
                  "  priorityBands: [{priority: 0, maxRequests: 1}]\n");
  }
  static void expect(const FlowStage::Client& client, int status, const std::string& reason,
                     const std::string& message) {
    EXPECT_EQ(client.status, status);
    EXPECT_EQ(client.reason, reason);
    EXPECT_EQ(client.message, "inference error: " + message);
  }
};

TEST_F(Case23Queues, NoRoomInTheQueue) {
  FlowStage stage(config());
  stage.come();
  stage.come();
  expect(stage.come(), 429, "rejected-saturated",
         "ResourceExhausted - request rejected pre-queue: queue at capacity");
}

TEST_F(Case23Queues, NoRoomInTheQueueOfAnEmptyPool) {
  FlowStage stage(config(), 0);
  stage.come();
  expect(stage.come(), 503, "rejected-no-endpoints",
         "ServiceUnavailable - no endpoints available: request rejected pre-queue: no endpoints "
         "available");
}

TEST_F(Case23Queues, ItsTimeIsUp) {
  FlowStage stage(config());
  stage.come();
  auto& late = stage.come();
  stage.advance(9999ms);
  EXPECT_EQ(late.status, 0);
  stage.advance(2ms);
  expect(late, 429, "rejected-ttl-expired",
         "ResourceExhausted - request timed out in queue: request evicted from queue: request TTL "
         "expired");
}

TEST_F(Case23Queues, ItsTimeIsUpInAnEmptyPool) {
  FlowStage stage(config(), 0);
  auto& late = stage.come();
  stage.advance(5001ms);
  EXPECT_EQ(late.status, 503);
  EXPECT_EQ(late.reason, "rejected-no-endpoints");
  EXPECT_TRUE(late.message.starts_with(
      "inference error: ServiceUnavailable - request timed out in queue and no endpoints are "
      "available: "))
      << late.message;
}

TEST_F(Case23Queues, TheClientIsGone) {
  FlowStage stage(config());
  auto& first = stage.come();
  auto& gone = stage.come();
  gone.leave();
  EXPECT_EQ(gone.status, 0) << "nobody listens";
  EXPECT_TRUE(
      stage.shows("llm_d_epp_flow_control_requests_total{inference_pool=\"pool\","
                  "outcome=\"EvictedContextCancelled\",priority=\"0\"} 1"));
  auto& next = stage.come();
  first.finish();
  EXPECT_TRUE(next.sent) << "its place in the queue is free";
}

TEST_F(Case23Queues, ThePoolShutsDown) {
  for (const size_t endpoints : {1, 0}) {
    FlowStage stage(config(), endpoints);
    if (endpoints > 0) stage.come();
    auto& waits = stage.come();
    stage.drain();
    expect(waits, 503, "rejected-shutting-down",
           "ServiceUnavailable - flow controller shutting down: request evicted from queue: flow "
           "controller is not running");
  }
}

}  // namespace
}  // namespace llmd::regress
