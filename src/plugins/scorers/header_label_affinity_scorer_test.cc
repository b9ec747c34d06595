#include "schedule/testing.h"

#include <gtest/gtest.h>

namespace llmd::plugins {
const plugin::Descriptor& header_label_affinity_scorer();

namespace {

using schedule::Scorer;
using schedule::testing::Harness;
using schedule::testing::Labels;
using Doubles = std::vector<double>;

constexpr auto kParameters = "{headerName: ' X-Tier ', labelKey: tier}";

TEST(HeaderLabelAffinityScorer, ComparesHeaderAndLabel) {
  Harness harness(
      {Labels{{"tier", "gold"}}, Labels{{"tier", "iron"}}, Labels{}, Labels{{"tier", ""}}});
  const auto& scorer = harness.make<Scorer>(header_label_affinity_scorer(), kParameters);
  EXPECT_EQ(harness.scores(scorer), Doubles(4, 0));
  HeaderField field{"x-TIER", "gold"};
  harness.context.headers = {{&field, 1}};
  EXPECT_EQ(harness.scores(scorer), (Doubles{1, 0, 0, 0}));
  field.value = "";
  EXPECT_EQ(harness.scores(scorer), Doubles(4, 0));
}

TEST(HeaderLabelAffinityScorer, NeedsBothNames) {
  Harness harness(1);
  EXPECT_FALSE(harness.try_make(header_label_affinity_scorer(), "{headerName: a}"));
  EXPECT_FALSE(harness.try_make(header_label_affinity_scorer(), "{labelKey: a}"));
}

}  // namespace
}  // namespace llmd::plugins
