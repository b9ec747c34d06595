#include "schedule/attributes.h"
#include "schedule/testing.h"

#include <gtest/gtest.h>

namespace llmd::plugins {
const plugin::Descriptor& no_hit_lru_scorer();

namespace {

using schedule::PrefixMatch;
using schedule::testing::Harness;
using Doubles = std::vector<double>;

/// Four endpoints A to D, of which none has the prefix.
class NoHitLru : public ::testing::Test {
 protected:
  void configure(std::string_view parameters = "") {
    scorer_ = &harness_.make<schedule::Scorer>(no_hit_lru_scorer(), parameters);
    hook_ = dynamic_cast<const schedule::PreRequest*>(scorer_);
  }
  Doubles scores() { return harness_.scores(*scorer_); }
  void use(std::initializer_list<uint32_t> targets) {
    for (const uint32_t target : targets) {
      harness_.fresh_request();
      scores();
      harness_.choose(0, target);
      EXPECT_TRUE(hook_->pre_request(harness_.context));
    }
    harness_.fresh_request();
  }
  void expect(const Doubles& want) {
    const auto got = scores();
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-15) << i;
  }

  Harness harness_{4};
  const schedule::Scorer* scorer_ = nullptr;
  const schedule::PreRequest* hook_ = nullptr;
};

constexpr double kThird = 1.0 / 3;

TEST_F(NoHitLru, RanksNeverUsedEndpointsAsTheyStand) {
  configure();
  expect({1, 2 * kThird, kThird, 0});
}

TEST_F(NoHitLru, PutsUsedEndpointsBehindThoseNeverUsed) {
  configure();
  use({1});
  expect({1, 0, 2 * kThird, kThird});
}

TEST_F(NoHitLru, RanksUsedEndpointsByTimeOfUse) {
  configure();
  use({2, 0, 1, 3});
  expect({2 * kThird, kThird, 1, 0});
  use({2});
  expect({1, 2 * kThird, 0, kThird});
}

/// The reference counts the places of endpoints that are no candidates, so that all candidates can
/// get 0; here only candidates are ranked.
TEST_F(NoHitLru, RanksWithinTheCandidates) {
  configure();
  use({2, 3, 0, 1});
  const uint32_t selected[] = {0, 1};
  double out[2] = {};
  scorer_->score(harness_.context, selected, out);
  EXPECT_EQ(out[0], 1);
  EXPECT_EQ(out[1], 0);
}

TEST_F(NoHitLru, IsNeutralWhenAnyCandidateHasThePrefix) {
  configure();
  const auto matches = harness_.provide<PrefixMatch>("approx-prefix-cache-producer");
  matches[2].match_blocks = 1;
  expect({.5, .5, .5, .5});
}

TEST_F(NoHitLru, RemembersOnlyWhereColdRequestsWent) {
  configure();
  const auto matches = harness_.provide<PrefixMatch>("approx-prefix-cache-producer");
  matches[2].match_blocks = 1;
  scores();
  harness_.choose(0, 0);
  EXPECT_TRUE(hook_->pre_request(harness_.context));
  harness_.fresh_request();
  expect({1, 2 * kThird, kThird, 0});
}

TEST_F(NoHitLru, RatesASingleCandidateOne) {
  configure();
  const uint32_t selected[] = {3};
  double out[1] = {};
  scorer_->score(harness_.context, selected, out);
  EXPECT_EQ(out[0], 1);
}

TEST_F(NoHitLru, RemembersThePrefillTargetToo) {
  configure();
  scores();
  harness_.choose(1, 3, false);
  harness_.choose(0, 0);
  EXPECT_TRUE(hook_->pre_request(harness_.context));
  harness_.fresh_request();
  expect({kThird, 1, 2 * kThird, 0});
}

TEST_F(NoHitLru, DumpsWhoWasUsedTheLastFirst) {
  configure();
  for (size_t i = 0; i < 4; ++i) harness_.join(i);
  use({2, 0});
  EXPECT_EQ(scorer_->dump_state(),
            R"({"endpoints":["default/e0","default/e2"],"totalEndpoints":2,"maxEndpoints":100})");
  harness_.leave(0);
  EXPECT_EQ(scorer_->dump_state(),
            R"({"endpoints":["default/e2"],"totalEndpoints":1,"maxEndpoints":100})");
}

TEST_F(NoHitLru, ForgetsTheOldestBeyondItsSize) {
  configure("{lruSize: 2}");
  use({3, 0, 1});
  expect({kThird, 0, 1, 2 * kThird});
}

}  // namespace
}  // namespace llmd::plugins
