#include "flow/controller.h"

#include "flow/testing.h"

#include <gtest/gtest.h>

namespace llmd::flow {
namespace {

using namespace std::chrono_literals;

/// A dispatcher that runs when the test says so.
class ControllerTest : public ::testing::Test {
 protected:
  ControllerTest() {
    controller_.attach({.wake = [this] { ++wakes_; }, .alarm = [this](Nanos d) { alarm_ = d; }});
    controller_.follow(fleet_);
    use(policies_.settings());
    testing::set_fleet(fleet_, {""});
  }
  ~ControllerTest() override {
    for (auto& [name, one] : waiting_)
      if (!controller_.abandon(*one)) delete one;
    controller_.run();
  }

  void use(const Settings& settings) { controller_.configure(settings); }
  void fill(double saturation) { policies_.detector.value = saturation; }
  bool pass(int32_t priority) {
    const auto reserved = controller_.pass(priority, policies_.detector, 1, clock_.now());
    if (reserved) controller_.gate().settle(*reserved);
    return reserved.has_value();
  }
  void come(const std::string& name, int32_t priority = 0, Nanos deadline = 0s) {
    auto one = testing::waiter(clock_.now(), name, priority);
    if (deadline > 0s) one->deadline = (clock_.now() + deadline).time_since_epoch().count();
    come(name, std::move(one));
  }
  void come(const std::string& name, std::unique_ptr<Waiter> one) {
    one->resume = schedule::Signal(
        std::make_shared<std::function<void()>>([this, name] { woken_.push_back(name); }));
    waiting_[name] = one.get();
    controller_.hand_over(*one.release());
  }
  void turn(Nanos after = 1ms) {
    clock_.advance(after);
    controller_.run();
  }
  /// "NAME OUTCOME" of those that were woken.
  std::vector<std::string> woken() {
    std::vector<std::string> lines;
    for (const auto& name : std::exchange(woken_, {})) {
      const std::unique_ptr<Waiter> one(waiting_.at(name));
      waiting_.erase(name);
      controller_.gate().settle(one->reserved);
      lines.push_back(name + " " + std::string(outcome_name(one->outcome)));
      retry_after_s_ = one->retry_after_s;
    }
    return lines;
  }
  using Lines = std::vector<std::string>;

  testing::Policies policies_;
  ManualClock clock_;
  metric::Registry metrics_{1};
  fleet::Fleet fleet_;
  Controller controller_{clock_, metrics_, "pool"};
  int wakes_ = 0;
  Nanos alarm_{0};
  std::map<std::string, Waiter*> waiting_;
  std::vector<std::string> woken_;
  float retry_after_s_ = 0;
};

TEST_F(ControllerTest, LetsRequestsPassWhileThereIsRoom) {
  EXPECT_TRUE(pass(0));
  EXPECT_TRUE(pass(10));
  fill(1);
  clock_.advance(1ms);
  EXPECT_FALSE(pass(10));
  EXPECT_EQ(wakes_, 0);
}

TEST_F(ControllerTest, LetsNobodyPassAheadOfItsEquals) {
  fill(1);
  come("first");
  EXPECT_FALSE(pass(0));  // it is on its way to its queue
  turn();
  fill(.5);
  clock_.advance(1ms);
  EXPECT_FALSE(pass(0));
  EXPECT_FALSE(pass(-1));
  EXPECT_TRUE(pass(10));
  turn();
  EXPECT_EQ(woken(), (Lines{"first Dispatched"}));
  EXPECT_TRUE(pass(0));
}

TEST_F(ControllerTest, DispatchesByPriorityThenAge) {
  fill(1);
  for (const auto& [name, priority] :
       std::vector<std::pair<std::string, int32_t>>{{"b", 0}, {"n", -1}, {"h", 10}, {"c", 0}}) {
    come(name, priority);
    clock_.advance(1ms);
  }
  turn();
  EXPECT_EQ(woken(), Lines{});
  EXPECT_EQ(controller_.waiting(), 4u);
  fill(0);
  turn();
  EXPECT_EQ(woken(), (Lines{"h Dispatched", "b Dispatched", "c Dispatched", "n Dispatched"}));
  EXPECT_EQ(controller_.waiting(), 0u);
}

TEST_F(ControllerTest, StopsAtABandThatIsShut) {
  policies_.usage.values = {.5, 1, 1};
  fill(.6);
  come("low", -1);
  turn();
  EXPECT_EQ(woken(), Lines{});  // band 10 is shut, though nothing waits in it
}

TEST_F(ControllerTest, DrainsABatchButNotMoreThanFits) {
  policies_.detector.each = .01;
  fill(1);
  for (int i = 0; i < 10'000; ++i) come("r" + std::to_string(i));
  turn();
  fill(.75);
  turn();
  EXPECT_EQ(woken_.size(), 25u);
}

TEST_F(ControllerTest, DrainsBySmallBatchesWhereTheDetectorCannotTell) {
  fill(1);
  for (int i = 0; i < 100; ++i) come("r" + std::to_string(i));
  turn();
  fill(.5);
  turn();
  EXPECT_EQ(woken().size(), 2u);  // half of four
  fill(0);
  turn();
  EXPECT_EQ(woken().size(), 4u);
}

TEST_F(ControllerTest, RefusesWhatFindsNoRoom) {
  Settings settings = policies_.settings();
  settings.bands[1].limits.requests = 2;
  use(settings);
  fill(1);
  for (const auto* name : {"a", "b", "c"}) come(name);
  turn();
  EXPECT_EQ(woken(), (Lines{"c RejectedCapacity"}));
  testing::set_fleet(fleet_, {});
  come("d");
  turn();
  EXPECT_EQ(woken(), (Lines{"d RejectedNoEndpoints"}));
}

TEST_F(ControllerTest, GivesUpByTheRegime) {
  Settings settings = policies_.settings();
  settings.ttl = 10s;
  settings.no_endpoint_ttl = 30s;
  use(settings);
  fill(1);
  auto one = testing::waiter(clock_.now(), "a");
  one->ttl = settings.ttl;
  come("a", std::move(one));
  turn();
  EXPECT_LE(alarm_, 10s);
  turn(10s);
  EXPECT_EQ(woken(), (Lines{"a EvictedTTL"}));
  testing::set_fleet(fleet_, {});
  come("b");
  turn();
  turn(29s);
  EXPECT_EQ(woken(), Lines{});
  turn(1s);
  EXPECT_EQ(woken(), (Lines{"b EvictedNoEndpoints"}));
}

TEST_F(ControllerTest, GivesUpABoundedNumberInATurn) {
  constexpr size_t kMost = Controller::kExpiredMost;
  fill(1);
  for (size_t i = 0; i < kMost + 7; ++i) come(std::to_string(i));
  turn();
  turn(60s);
  EXPECT_EQ(woken().size(), kMost);
  EXPECT_EQ(controller_.waiting(), 7u);
  EXPECT_EQ(alarm_, Gate::kPeriod);  // the others follow at once
  turn();
  EXPECT_EQ(woken().size(), 7u);
}

TEST_F(ControllerTest, KeepsRequestsUntilThePoolWakes) {
  testing::set_fleet(fleet_, {});
  come("a");
  turn();
  const int before = wakes_;
  turn(50s);
  testing::set_fleet(fleet_, {""});
  EXPECT_GT(wakes_, before);
  turn();
  EXPECT_EQ(woken(), (Lines{"a Dispatched"}));
}

TEST_F(ControllerTest, ForgetsWhoGoesAway) {
  fill(1);
  come("early");
  EXPECT_TRUE(controller_.abandon(*waiting_.at("early")));
  waiting_.erase("early");
  come("late");
  turn();
  EXPECT_EQ(controller_.waiting(), 1u);
  EXPECT_TRUE(controller_.abandon(*waiting_.at("late")));
  waiting_.erase("late");
  turn();
  EXPECT_EQ(controller_.waiting(), 0u);
  EXPECT_EQ(woken(), Lines{});
}

TEST_F(ControllerTest, LeavesFinishedOnesToTheirLoop) {
  come("a");
  turn();
  EXPECT_FALSE(controller_.abandon(*waiting_.at("a")));
  EXPECT_EQ(woken(), (Lines{"a Dispatched"}));
}

TEST_F(ControllerTest, RestsWhileNothingWaits) {
  turn();
  EXPECT_EQ(alarm_, Controller::kCollectInterval);
  controller_.made_room();
  EXPECT_EQ(wakes_, 0);
  fill(1);
  come("a");
  turn();
  EXPECT_EQ(alarm_, Gate::kPeriod);
  wakes_ = 0;
  controller_.made_room();
  controller_.made_room();
  EXPECT_EQ(wakes_, 1);
}

TEST_F(ControllerTest, KeepsPlacesAcrossConfigurations) {
  fill(1);
  for (const auto* name : {"a", "b"}) come(name), clock_.advance(1ms);
  turn();
  use(policies_.settings());
  come("c");
  turn();
  fill(0);
  turn();
  EXPECT_EQ(woken(), (Lines{"a Dispatched", "b Dispatched", "c Dispatched"}));
}

TEST_F(ControllerTest, RefusesWhatWouldBeLate) {
  Settings settings = policies_.settings();
  settings.refuse_late = true;
  use(settings);
  policies_.detector.each = 1;
  fill(1);
  for (int i = 0; i < 30; ++i) come("r" + std::to_string(i));
  turn();
  for (int i = 0; i < 10; ++i) {  // one a second
    fill(0);
    turn(500ms);
    woken();
    fill(1);
    turn(500ms);
  }
  come("hurried", 0, 5s);
  come("patient", 0, 100s);
  turn();
  EXPECT_EQ(woken(), (Lines{"hurried RejectedDeadline"}));
  EXPECT_GT(retry_after_s_, 10);
  EXPECT_LT(retry_after_s_, 20);
}

TEST_F(ControllerTest, SaysWhyARequestWaits) {
  using Why = schedule::WaitNote::Why;
  int n = 0;
  const auto note = [&](const std::string& flow, int32_t priority = 0) {
    auto one = testing::waiter(clock_.now(), flow, priority);
    const Waiter& there = *one;
    come(flow + std::to_string(++n), std::move(one));
    turn();
    return there.note;
  };
  fill(1.5);
  turn();
  auto first = note("A");
  EXPECT_EQ(first.why, Why::kCeiling);
  EXPECT_EQ(first.saturation, 1.5F);
  EXPECT_EQ(first.ceiling, 1);
  EXPECT_EQ(first.ahead_in_band, 0u);
  EXPECT_EQ(first.expected_s, 0);  // nothing has left the queue yet
  const auto second = note("A");
  EXPECT_EQ(second.ahead_in_flow, 1u);
  EXPECT_EQ(note("B").ahead_in_band, 2u);

  policies_.usage.values = {.5, .7, 1};
  fill(.6);
  turn();
  EXPECT_EQ(note("A").why, Why::kHigherCeiling);
  EXPECT_EQ(note("H", 10).why, Why::kCeiling);
  testing::set_fleet(fleet_, {});
  turn();
  EXPECT_EQ(note("A").why, Why::kNoEndpoint);
}

TEST_F(ControllerTest, SaysWhoseWaitKeepsARequest) {
  using Why = schedule::WaitNote::Why;
  policies_.detector.each = .6;  // a turn lets in two
  fill(1);
  for (const auto* name : {"a", "b", "c"}) come(name);
  turn();
  // They come before the pool is read anew, as when it has just got room.
  fill(0);
  controller_.gate().expire();
  controller_.gate().renew(clock_.now() + 1ms);
  auto equal = testing::waiter(clock_.now(), "x"), same = testing::waiter(clock_.now(), "a"),
       less = testing::waiter(clock_.now(), "y", -1);
  const Waiter *x = equal.get(), *a = same.get(), *y = less.get();
  come("x", std::move(equal));
  come("a2", std::move(same));
  come("y", std::move(less));
  turn(0ms);
  EXPECT_EQ(x->note.why, Why::kBandWaits);
  EXPECT_EQ(a->note.why, Why::kFlowWaits);
  EXPECT_EQ(y->note.why, Why::kHigherWaits);
  EXPECT_EQ(x->note.ahead_in_band, 3u);
}

TEST_F(ControllerTest, ShowsItsGauges) {
  Settings settings = policies_.settings();
  settings.bands[1].limits = {.bytes = 100, .requests = 4};
  settings.limits.requests = 8;
  use(settings);
  fill(1.5);
  come("a");
  turn();
  const auto page = metrics_.render();
  for (const auto* line :
       {"llm_d_epp_flow_control_pool_saturation{inference_pool=\"pool\",stage=\"effective\"} 1.5",
        "llm_d_epp_flow_control_pool_saturation{inference_pool=\"pool\",stage=\"decode\"} 1.5",
        "llm_d_epp_flow_control_capacity_utilization_requests{inference_pool=\"pool\",priority="
        "\"0\"} 0.25",
        "llm_d_epp_flow_control_capacity_utilization_bytes{inference_pool=\"pool\",priority="
        "\"0\"} 0.01",
        "llm_d_epp_flow_control_global_capacity_utilization_requests{inference_pool=\"pool\"} "
        "0.125"})
    EXPECT_NE(page.find(line), std::string::npos) << line;
  EXPECT_EQ(page.find("stage=\"prefill\""), std::string::npos);
  EXPECT_EQ(page.find("global_capacity_utilization_bytes{"), std::string::npos);
}

TEST_F(ControllerTest, SaysWhatWaitsAndWhy) {
  fill(1.25);
  come("tenant \"A\"");
  turn(2s);
  const auto state = controller_.dump_state();
  EXPECT_NE(state.find(R"("saturation":1.2500)"), std::string::npos) << state;
  EXPECT_NE(state.find(R"("priority":10,"ceiling":1.0000,"state":"pool is full for it")"),
            std::string::npos)
      << state;
  EXPECT_NE(state.find(R"({"id":"tenant \"A\"","waiting":1)"), std::string::npos) << state;
  testing::set_fleet(fleet_, {});
  turn(2s);
  const auto empty = controller_.dump_state();
  EXPECT_NE(empty.find(R"("state":"pool is empty")"), std::string::npos) << empty;
}

}  // namespace
}  // namespace llmd::flow
