#include "pickers/weighted_key.h"
#include "schedule/testing.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

namespace llmd::plugins {
const plugin::Descriptor& random_picker();
const plugin::Descriptor& weighted_random_picker();

namespace {

using schedule::Picker;
using schedule::testing::Harness;
using Picks = std::vector<uint32_t>;
using Doubles = std::vector<double>;

constexpr int kDraws = 20000;

std::map<Picks, int> draw(const plugin::Descriptor& descriptor, const Doubles& totals,
                          std::string_view parameters = "") {
  Harness harness(totals.size());
  const auto& picker = harness.make<Picker>(descriptor, parameters);
  std::map<Picks, int> seen;
  for (int i = 0; i < kDraws; ++i) {
    harness.fresh_request();
    ++seen[harness.picks(picker, totals)];
  }
  return seen;
}

/// Within five standard deviations.
void expect_share(int count, double share) {
  EXPECT_NEAR(count, kDraws * share, 5 * std::sqrt(kDraws * share * (1 - share)));
}

TEST(RandomPicker, IsUniformWhateverTheScores) {
  const auto seen = draw(random_picker(), {9, 0, 1});
  ASSERT_EQ(seen.size(), 3u);
  for (const auto& [picks, count] : seen) expect_share(count, 1.0 / 3);
}

TEST(RandomPicker, DrawsEveryOrderAlike) {
  const auto seen = draw(random_picker(), {0, 0, 0}, "{maxNumOfEndpoints: 2}");
  ASSERT_EQ(seen.size(), 6u);
  for (const auto& [picks, count] : seen) expect_share(count, 1.0 / 6);
}

TEST(RandomPicker, PicksOneWhenTheNumberIsZeroOrLess) {
  Harness harness(3);
  const auto& picker = harness.make<Picker>(random_picker(), "{maxNumOfEndpoints: 0}");
  EXPECT_EQ(harness.picks(picker, {0, 0, 0}).size(), 1u);
}

TEST(WeightedKey, OrdersAsThePowerDoes) {
  const double a = weighted_key(3, .5), b = weighted_key(1, .7), c = weighted_key(7, .2);
  EXPECT_NEAR(std::exp(a), .79370, 5e-6);
  EXPECT_NEAR(std::exp(b), .7, 1e-12);
  EXPECT_NEAR(std::exp(c), .79460, 5e-6);
  EXPECT_GT(c, a);
  EXPECT_GT(a, b);
}

TEST(WeightedKey, TakesZeroForASmallNumberAndPutsZeroScoresLast) {
  EXPECT_DOUBLE_EQ(std::exp(weighted_key(1, 0)), 1e-10);
  EXPECT_LT(weighted_key(0, .9), weighted_key(1e-12, 0));
  EXPECT_LT(weighted_key(-1, .9), weighted_key(1e-12, 0));
}

TEST(WeightedRandomPicker, DrawsInProportionToTheScores) {
  const auto seen = draw(weighted_random_picker(), {3, 1, 6});
  expect_share(seen.at({0}), .3);
  expect_share(seen.at({1}), .1);
  expect_share(seen.at({2}), .6);
}

TEST(WeightedRandomPicker, DrawsTheRestInProportionToo) {
  const auto seen = draw(weighted_random_picker(), {3, 1, 6}, "{maxNumOfEndpoints: 3}");
  EXPECT_EQ(seen.size(), 6u);
  expect_share(seen.at({2, 0, 1}), .6 * .75);
  expect_share(seen.at({0, 1, 2}), .3 * (1.0 / 7));
}

TEST(WeightedRandomPicker, LeavesZeroScoresToTheTail) {
  EXPECT_EQ(draw(weighted_random_picker(), {0, 2, 0}).size(), 1u);
  for (const auto& [picks, count] :
       draw(weighted_random_picker(), {0, 2, 0}, "{maxNumOfEndpoints: 2}"))
    EXPECT_EQ(picks[0], 1u);
}

TEST(WeightedRandomPicker, IsUniformWithoutAnyPositiveScore) {
  const auto seen = draw(weighted_random_picker(), {0, 0, 0});
  ASSERT_EQ(seen.size(), 3u);
  for (const auto& [picks, count] : seen) expect_share(count, 1.0 / 3);
}

}  // namespace
}  // namespace llmd::plugins
