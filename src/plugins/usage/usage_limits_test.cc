#include "flow/policies.h"
#include "schedule/testing.h"

#include <gtest/gtest.h>

namespace llmd::plugins {
const plugin::Descriptor& static_usage_limit_policy();
const plugin::Descriptor& priority_holdback_policy();
const plugin::Descriptor& soft_reflective_ceiling_policy();

namespace {

using namespace std::chrono_literals;
using Ceilings = std::vector<double>;

class UsageLimits : public ::testing::Test {
 protected:
  Ceilings ceilings(const flow::UsageLimitPolicy& policy, double saturation,
                    const std::vector<int32_t>& priorities, TimePoint now = {}) {
    Ceilings out(priorities.size(), 1.0);
    policy.compute(saturation, priorities, now, out);
    return out;
  }
  Ceilings holdback(const std::vector<int32_t>& priorities, std::string_view parameters) {
    schedule::testing::Harness harness(0);
    return ceilings(harness.make<flow::UsageLimitPolicy>(priority_holdback_policy(), parameters), 0,
                    priorities);
  }
  static void near(const Ceilings& got, const Ceilings& want) {
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 5e-6) << i;
  }

  schedule::testing::Harness harness_{0};
};

TEST_F(UsageLimits, AreTheSameForAllWhenStatic) {
  const auto& usual = harness_.make<flow::UsageLimitPolicy>(static_usage_limit_policy());
  EXPECT_EQ(ceilings(usual, .5, {10, 0}), (Ceilings{1, 1}));
  const auto& set =
      harness_.make<flow::UsageLimitPolicy>(static_usage_limit_policy(), "{threshold: 2.5}", "set");
  EXPECT_EQ(ceilings(set, .5, {10, 0}), (Ceilings{2.5, 2.5}));
}

TEST_F(UsageLimits, HoldBackByRank) {
  constexpr auto kRank = "{minCeiling: 0.4, maxCeiling: 0.9}";
  near(holdback({0}, kRank), {.9});
  near(holdback({10, 0}, kRank), {.9, .4});
  near(holdback({10, 0, -10}, kRank), {.9, .65, .4});
  near(holdback({100, 50, 10, 0, -10}, kRank), {.9, .775, .65, .525, .4});
}

TEST_F(UsageLimits, HoldBackByValue) {
  constexpr auto kValue = "{minCeiling: 0.4, maxCeiling: 0.9, domain: value}";
  near(holdback({10, 0, -10}, kValue), {.9, .65, .4});
  near(holdback({100, 50, 10, 0, -10}, kValue), {.9, .67273, .49091, .44545, .4});
}

TEST_F(UsageLimits, CheckHoldbackParameters) {
  for (const auto* bad : {"{}", "{minCeiling: 1}", "{minCeiling: -0.1}",
                          "{minCeiling: 0.5, maxCeiling: 0.5}", "{minCeiling: 0, maxCeiling: 1.1}",
                          "{minCeiling: 0.1, shape: step}", "{minCeiling: 0.1, domain: other}"})
    EXPECT_FALSE(harness_.try_make(priority_holdback_policy(), bad)) << bad;
  EXPECT_TRUE(harness_.try_make(priority_holdback_policy(), "{minCeiling: 0}"));
}

TEST_F(UsageLimits, OpenAndShutByTheReflection) {
  const auto& policy = harness_.make<flow::UsageLimitPolicy>(soft_reflective_ceiling_policy());
  const auto gated = [&](double saturation, size_t bands, size_t band, int ticks) {
    std::string out;
    std::vector<int32_t> priorities;
    for (size_t i = 0; i < bands; ++i) priorities.push_back(-static_cast<int32_t>(i));
    for (int tick = 1; tick <= ticks; ++tick)
      out += ceilings(policy, saturation, priorities, TimePoint(tick * 1ms))[band] == 1 ? '1' : '0';
    return out;
  };
  EXPECT_EQ(gated(.3, 3, 2, 3), "111");
  EXPECT_EQ(gated(.5, 2, 1, 3), "111");
  EXPECT_EQ(gated(.5, 3, 2, 3), "111");
  EXPECT_EQ(gated(.6, 3, 2, 3), "111");
  EXPECT_EQ(gated(.7, 2, 1, 4), "0101");
  EXPECT_EQ(gated(.7, 4, 1, 4), "1111");
  EXPECT_EQ(gated(.7, 4, 2, 4), "0101");
  EXPECT_EQ(gated(.7, 4, 3, 4), "0101");
  EXPECT_EQ(gated(.75, 2, 1, 6), "001001");
  EXPECT_EQ(gated(.8, 3, 1, 4), "0001");
  EXPECT_EQ(gated(.9, 2, 1, 18), "000000001000000001");
  EXPECT_EQ(gated(.95, 2, 1, 19), "0000000000000000001");
  EXPECT_EQ(gated(1, 2, 1, 4), "0000");
  EXPECT_EQ(gated(1, 2, 0, 4), "1111");
  EXPECT_EQ(gated(2, 1, 0, 2), "11");
}

TEST_F(UsageLimits, RefuseParametersTheyLack) {
  EXPECT_FALSE(harness_.try_make(soft_reflective_ceiling_policy(), "{x: 1}"));
  EXPECT_TRUE(harness_.try_make(soft_reflective_ceiling_policy(), "{}"));
}

}  // namespace
}  // namespace llmd::plugins
