#include "flow_stage.h"

#include "flow/queues.h"
#include "flow/testing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>

namespace llmd::regress {
namespace {

using namespace std::chrono_literals;

/// llm-d-router#1608: the band of an objective was collected when it had been idle, and the next
/// request of that priority was refused, or went to another band.
TEST(Case25, ABandThatAnObjectiveWantsIsThereAfterAnyPause) {
  FlowStage stage(places(1, "  defaultRequestTTL: 0s\n"), 1, {7});
  stage.come(7).finish();
  stage.advance(30min);
  auto& first = stage.come(7);
  auto& usual = stage.come(0);
  auto& urgent = stage.come(7);
  EXPECT_TRUE(stage.shows(
      "llm_d_epp_flow_control_queue_size{fairness_id=\"tenant\",inference_pool=\"pool\","
      "model_name=\"m\",priority=\"7\",target_model_name=\"m\"} 1"));
  first.finish();
  EXPECT_TRUE(urgent.sent);
  EXPECT_FALSE(usual.sent);
}

/// llm-d-router#2382: the queue of a collected flow was deducted twice, and a sum wrapped.
TEST(Case25, SumsStayRightWhenFlowsAreCollected) {
  FlowStage stage(places(1, "  defaultRequestTTL: 0s\n  maxRequests: 2\n"));
  auto& first = stage.come();
  auto& a = stage.come(0, "a");
  stage.advance(30min);
  auto& b = stage.come(0, "b");
  EXPECT_EQ(stage.come(0, "c").status, 429);
  first.finish();
  EXPECT_TRUE(a.sent);
  a.finish();
  EXPECT_TRUE(b.sent);
  b.finish();
  stage.advance(30min);
  EXPECT_EQ(stage.waiting(), 0u);
  EXPECT_TRUE(
      stage.shows("llm_d_epp_flow_control_capacity_utilization_requests{"
                  "inference_pool=\"pool\",priority=\"0\"} 0"));
}

/// llm-d-router#2120: the cost of a dispatch grew with the flows that there had ever been.
class Dispatches {
 public:
  /// All flows have been used once, three are.
  explicit Dispatches(size_t registered) {
    queues_.configure(policies_.settings(), now_);
    for (size_t i = 0; i < registered; ++i) {
      come("idle-" + std::to_string(i));
      go();
    }
  }
  /// The time of 3000 requests that come and go, at best.
  Nanos best() {
    Nanos best = Nanos::max();
    for (int round = 0; round < 20; ++round) {
      const auto begin = std::chrono::steady_clock::now();
      for (int i = 0; i < 1000; ++i) {
        for (const auto* name : {"a", "b", "c"}) come(name);
        for (int k = 0; k < 3; ++k) go();
      }
      best = std::min<Nanos>(best, std::chrono::steady_clock::now() - begin);
    }
    return best;
  }

 private:
  void come(const std::string& flow) {
    auto one = flow::testing::waiter(now_, flow);
    CHECK(queues_.enqueue(*one, now_));
    waiting_[one.get()] = std::move(one);
  }
  void go() {
    for (const auto& band : queues_.bands()) {
      auto* waiter = queues_.first(*band, now_);
      if (!waiter) continue;
      queues_.dispatch(*waiter, now_);
      waiting_.erase(waiter);
      return;
    }
  }

  const TimePoint now_ = flow::testing::at(1h);
  flow::testing::Policies policies_;
  flow::Queues queues_;
  std::map<flow::Waiter*, std::unique_ptr<flow::Waiter>> waiting_;
};

TEST(Case25, IdleFlowsCostNothing) {
  const Nanos few = Dispatches(3).best();
  const Nanos many = Dispatches(50'000).best();
  EXPECT_LT(many, 2 * few) << many.count() << " ns against " << few.count();
}

}  // namespace
}  // namespace llmd::regress
