#include "flow/queues.h"

#include "flow/testing.h"

#include <gtest/gtest.h>

namespace llmd::flow {
namespace {

using namespace std::chrono_literals;
using testing::at;
using testing::waiter;

class QueuesTest : public ::testing::Test {
 protected:
  QueuesTest() { queues_.configure(policies_.settings(), at(0s)); }
  ~QueuesTest() override { empty(); }

  Waiter& keep(std::unique_ptr<Waiter> made) { return *kept_.emplace_back(std::move(made)); }
  bool add(std::unique_ptr<Waiter> made) {
    Waiter& one = keep(std::move(made));
    return queues_.enqueue(one, one.enqueued);
  }
  void empty() {
    for (auto& one : kept_)
      if (one->flow) queues_.remove(*one, at(0s));
  }
  /// Names of the flows whose requests go, from the highest band on.
  std::string order() {
    std::string flows;
    for (const auto& band : queues_.bands())
      while (Waiter* next = queues_.first(*band, at(0s))) {
        flows += next->fairness_id;
        queues_.dispatch(*next, at(0s));
      }
    return flows;
  }
  std::vector<Outcome> expired(const Regime& regime, TimePoint now) {
    std::vector<Outcome> outcomes;
    queues_.expire(regime, now, SIZE_MAX, [&](Waiter&) {
      outcomes.push_back(regime.empty ? Outcome::kEvictedNoEndpoints : Outcome::kEvictedTtl);
    });
    return outcomes;
  }

  testing::Policies policies_;
  Queues queues_;
  std::vector<std::unique_ptr<Waiter>> kept_;
};

TEST_F(QueuesTest, LimitABandByRequests) {
  Settings settings = policies_.settings();
  settings.bands[1].limits.requests = 2;
  queues_.configure(settings, at(0s));
  EXPECT_TRUE(add(waiter(at(1ms))));
  EXPECT_TRUE(add(waiter(at(2ms))));
  EXPECT_FALSE(add(waiter(at(3ms))));
  EXPECT_TRUE(add(waiter(at(3ms), "A", 10)));
}

TEST_F(QueuesTest, LimitAllBandsByBytes) {
  Settings settings = policies_.settings();
  settings.limits.bytes = 100;
  queues_.configure(settings, at(0s));
  EXPECT_TRUE(add(waiter(at(1ms), "A", 0, 60)));
  EXPECT_TRUE(add(waiter(at(2ms), "B", 10, 40)));
  EXPECT_FALSE(add(waiter(at(3ms), "A", 0, 1)));
}

TEST_F(QueuesTest, LimitABandByTokens) {
  Settings settings = policies_.settings();
  settings.bands[1].limits.tokens = 2;
  queues_.configure(settings, at(0s));
  EXPECT_TRUE(add(waiter(at(1ms))));
  EXPECT_TRUE(add(waiter(at(2ms), "B")));
  EXPECT_FALSE(add(waiter(at(3ms), "C")));
}

TEST_F(QueuesTest, GiveBackWhatLeaves) {
  Settings settings = policies_.settings();
  settings.bands[1].limits.requests = 1;
  queues_.configure(settings, at(0s));
  EXPECT_TRUE(add(waiter(at(1ms))));
  queues_.remove(*kept_[0], at(2ms));
  EXPECT_EQ(queues_.waiting().requests, 0);
  EXPECT_EQ(queues_.waiting().bytes, 0);
  EXPECT_TRUE(add(waiter(at(3ms))));
}

TEST_F(QueuesTest, KeepPlacesWhenReconfigured) {
  add(waiter(at(1ms), "A"));
  add(waiter(at(2ms), "B"));
  add(waiter(at(3ms), "C", 10));
  queues_.configure(policies_.settings(), at(4ms));
  EXPECT_EQ(queues_.waiting().requests, 3);
  EXPECT_EQ(order(), "CAB");
}

TEST_F(QueuesTest, BreakTiesBySequence) {
  for (const char* flow : {"B", "A", "C"}) add(waiter(at(1ms), flow));
  EXPECT_EQ(order(), "BAC");
}

TEST_F(QueuesTest, ExpireByTheRegime) {
  const struct {
    Nanos ttl, no_endpoint_ttl;
    Regime regime;
    Nanos now;
    bool expires;
  } cases[] = {
      {100ms, 2s, {}, 99ms, false},
      {100ms, 2s, {}, 100ms, true},
      {100ms, 2s, {.empty = true}, 1999ms, false},
      {100ms, 2s, {.empty = true}, 2000ms, true},
      {100ms, 0s, {.empty = true}, 1h, false},
      {0s, 2s, {}, 1h, false},
      {100ms, 2s, {.empty = false, .since = at(10s + 1s)}, 1099ms, false},
      {100ms, 2s, {.empty = false, .since = at(10s + 1s)}, 1100ms, true},
      {100ms, 2s, {.empty = false, .since = at(10s - 100ms)}, 100ms, true},
  };
  for (size_t i = 0; i < std::size(cases); ++i) {
    const auto& c = cases[i];
    Settings settings = policies_.settings();
    settings.ttl = c.ttl;
    settings.no_endpoint_ttl = c.no_endpoint_ttl;
    queues_.configure(settings, at(0s));
    auto one = waiter(at(10s));
    one->ttl = c.ttl;
    add(std::move(one));
    EXPECT_EQ(expired(c.regime, at(10s + c.now)).size(), c.expires ? 1u : 0u) << "case " << i;
    empty();
  }
}

TEST_F(QueuesTest, HonourShorterTtls) {
  add(waiter(at(1s)));
  auto brief = waiter(at(2s), "brief");
  brief->ttl = 5s;
  add(std::move(brief));
  EXPECT_EQ(queues_.next_expiry({}), at(7s));
  EXPECT_TRUE(expired({}, at(7s - 1ns)).empty());
  EXPECT_EQ(expired({}, at(7s)).size(), 1u);
  EXPECT_EQ(queues_.next_expiry({}), at(61s));
}

TEST_F(QueuesTest, EndAWaitThatFlipsWouldKeepUp) {
  add(waiter(at(0s)));
  EXPECT_TRUE(expired({.empty = false, .since = at(59s)}, at(61s)).empty());
  EXPECT_EQ(expired({.empty = false, .since = at(59s)}, at(62s)).size(), 1u);
}

TEST_F(QueuesTest, DropFlowsThatAreIdleForLong) {
  add(waiter(at(1s), "gone"));
  add(waiter(at(1s), "waits"));
  queues_.remove(*kept_[0], at(1s));
  const Band& band = *queues_.bands()[1];
  queues_.collect(at(1s + Queues::kFlowIdle - 1ns));
  EXPECT_EQ(band.flows.size(), 2u);
  queues_.collect(at(1s + Queues::kFlowIdle));
  EXPECT_EQ(band.flows.size(), 1u);
}

TEST_F(QueuesTest, MakeBandsFromTheTemplates) {
  Settings settings = policies_.settings();
  settings.other.limits.requests = 7;
  settings.other_negative = policies_.band(0, {.requests = 50});
  queues_.configure(settings, at(0s));
  EXPECT_EQ(queues_.band_of(5, at(0s)).settings.limits.requests, 7);
  EXPECT_EQ(queues_.band_of(-5, at(0s)).settings.limits.requests, 50);
  EXPECT_EQ(queues_.bands().size(), 5u);
  EXPECT_EQ(queues_.bands()[1]->priority(), 5);
}

TEST_F(QueuesTest, DropBandsThatNobodyWants) {
  const int32_t desired[] = {3};
  queues_.provision(desired, at(0s));
  EXPECT_EQ(queues_.bands().size(), 4u);
  queues_.collect(at(1h));
  EXPECT_EQ(queues_.bands().size(), 4u);  // an objective has its priority
  queues_.provision({}, at(1h));
  EXPECT_EQ(queues_.bands().size(), 3u);  // listed ones stay
  queues_.band_of(4, at(2h));
  queues_.collect(at(2h + Queues::kBandIdle - 1ns));
  EXPECT_EQ(queues_.bands().size(), 4u);
  queues_.collect(at(2h + Queues::kBandIdle));
  EXPECT_EQ(queues_.bands().size(), 3u);
}

TEST_F(QueuesTest, EstimateWhatIsAhead) {
  for (int i = 0; i < 4; ++i) add(waiter(at(1ms * i), "A"));
  add(waiter(at(9ms), "B", 10));
  // Tokens, requests of the flow and of the band.
  using Ahead = std::array<int64_t, 3>;
  const auto ahead = [&](Nanos when, std::string_view flow, int32_t priority = 0) {
    const auto a = queues_.ahead(*waiter(at(when), flow, priority), at(10ms));
    return Ahead{a.tokens, a.in_flow, a.in_band};
  };
  EXPECT_EQ(ahead(10ms, "C"), (Ahead{5, 0, 4}));
  EXPECT_EQ(ahead(10ms, "A"), (Ahead{5, 4, 4}));
  EXPECT_EQ(ahead(2ms - 1us, "A"), (Ahead{3, 2, 2}));
  EXPECT_EQ(ahead(10ms, "C", 10), (Ahead{1, 0, 1}));
  EXPECT_EQ(ahead(10ms, "C", 20), (Ahead{0, 0, 0}));
}

TEST_F(QueuesTest, EstimateFromAPartOfLongQueues) {
  for (int i = 0; i < 10'000; ++i) add(waiter(at(1ms * i), i % 2 == 0 ? "A" : "B"));
  const auto middle = queues_.ahead(*waiter(at(2500ms), "A"), at(10s));
  EXPECT_NEAR(static_cast<double>(middle.in_flow), 1250, 250);
  EXPECT_NEAR(static_cast<double>(middle.in_band), 2500, 750);
  const auto last = queues_.ahead(*waiter(at(10s), "A"), at(10s));
  EXPECT_EQ(last.in_flow, 5000);
  EXPECT_EQ(last.in_band, 10'000);
}

TEST_F(QueuesTest, CountTurnsOfOtherFlows) {
  class Turns final : public FairnessPolicy {
    std::unique_ptr<FlowPicker> make_picker() const override {
      return testing::Strict().make_picker();
    }
  } turns;
  Settings settings = policies_.settings();
  for (auto& band : settings.bands) band.fairness = &turns;
  queues_.configure(settings, at(0s));
  for (int i = 0; i < 8; ++i) add(waiter(at(1ms * i), "many"));
  for (int i = 0; i < 2; ++i) add(waiter(at(1ms * i), "few"));
  const auto first = queues_.ahead(*waiter(at(10ms), "new"), at(10ms));
  EXPECT_EQ(first.in_flow, 0);
  EXPECT_EQ(first.in_band, 2);  // each of the others once
  const auto third = queues_.ahead(*waiter(at(10ms), "few"), at(10ms));
  EXPECT_EQ(third.in_flow, 2);
  EXPECT_EQ(third.in_band, 5);
  empty();
}

}  // namespace
}  // namespace llmd::flow
