#include "producers/testing.h"

#include <gtest/gtest.h>

namespace llmd::plugins {
const plugin::Descriptor& context_length_aware();

namespace {

using schedule::Filter;
using schedule::Scorer;
using schedule::testing::Harness;
using schedule::testing::Labels;

constexpr auto kLabel = "llm-d.ai/context-length-range";

double score(uint32_t tokens, std::string_view range) {
  Harness harness({Labels{{kLabel, std::string(range)}}});
  const testing::TokenRequest request(harness, {tokens});
  return harness.scores(harness.make<Scorer>(context_length_aware())).at(0);
}

TEST(ContextLengthAware, RatesByRange) {
  const struct {
    uint32_t tokens;
    std::string_view range;
    double score;
  } kCases[] = {
      {1000, "0-2048", .8141674448041167},
      {1000, "0-8192", .7537143988428979},
      {1000, "2048-8192", .146484375},
      {9000, "0-8192", .165929203539823},
      {2048, "0-2048", .7067065073041168},
      {2048, "2048-8192", .8135183349851338},
      {5, "5-5", 1},
      {1000, "8192-2048", 0},
      {1000, " 0 - 2048 ", .8141674448041167},
      {1000, "x", 0},
      {1000, "", 0},
  };
  for (const auto& c : kCases) EXPECT_NEAR(score(c.tokens, c.range), c.score, 1e-15) << c.range;
}

TEST(ContextLengthAware, RatesEndpointsWithoutRangeInTheMiddle) {
  Harness harness(1);
  const testing::TokenRequest request(harness, {1000});
  EXPECT_EQ(harness.scores(harness.make<Scorer>(context_length_aware())).at(0), .5);
}

TEST(ContextLengthAware, FiltersOnlyWhenAsked) {
  Harness harness({Labels{{"r", "0-100"}}, Labels{{"r", "100-200"}}, Labels{{"r", "x"}}, Labels{},
                   Labels{{"r", "101-200"}}});
  const testing::TokenRequest request(harness, {100});
  EXPECT_EQ(harness.filtered(harness.make<Filter>(context_length_aware(), "{label: r}")).size(),
            5u);
  EXPECT_EQ(harness.filtered(
                harness.make<Filter>(context_length_aware(), "{label: r, enableFiltering: true}")),
            (std::vector<uint32_t>{0, 1, 3}));
}

TEST(ContextLengthAware, RefusesAnEmptyLabel) {
  Harness harness(1);
  EXPECT_FALSE(harness.try_make(context_length_aware(), "{label: ''}"));
}

}  // namespace
}  // namespace llmd::plugins
