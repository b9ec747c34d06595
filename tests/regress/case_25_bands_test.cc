#include "flow_stage.h"

#include "flow/queues.h"
#include "flow/testing.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

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

/// Looks at all flows that it is given, and counts them.
class Looking final : public flow::FairnessPolicy {
  class Picker final : public flow::FlowPicker {
   public:
    explicit Picker(size_t& looks) : looks_(looks) {}
    void add(flow::Flow& flow) override { flows_.push_back(&flow); }
    void remove(flow::Flow& flow) override { std::erase(flows_, &flow); }
    flow::Flow* pick(TimePoint) override {
      looks_ += flows_.size();
      return flows_.empty() ? nullptr : flows_.front();
    }

   private:
    std::vector<flow::Flow*> flows_;
    size_t& looks_;
  };

 public:
  std::unique_ptr<flow::FlowPicker> make_picker() const override {
    return std::make_unique<Picker>(looks);
  }
  mutable size_t looks = 0;
};

/// llm-d-router#2120: the cost of a dispatch grew with the flows that there had ever been.
class Dispatches {
 public:
  /// All flows have been used once, three are.
  explicit Dispatches(size_t registered) {
    auto settings = policies_.settings();
    for (auto& band : settings.bands) band.fairness = &fairness_;
    queues_.configure(settings, now_);
    for (size_t i = 0; i < registered; ++i) {
      come("idle-" + std::to_string(i));
      go();
    }
  }
  /// Flows that are looked at while 30 requests come and go.
  size_t looks() {
    fairness_.looks = 0;
    for (int i = 0; i < 10; ++i) {
      for (const auto* name : {"a", "b", "c"}) come(name);
      for (int k = 0; k < 3; ++k) go();
    }
    return fairness_.looks;
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
  Looking fairness_;
  flow::Queues queues_;
  std::map<flow::Waiter*, std::unique_ptr<flow::Waiter>> waiting_;
};

TEST(Case25, IdleFlowsCostNothing) {
  EXPECT_EQ(Dispatches(3).looks(), 10 * (3u + 2u + 1u));
  EXPECT_EQ(Dispatches(50'000).looks(), 10 * (3u + 2u + 1u));
}

}  // namespace
}  // namespace llmd::regress
