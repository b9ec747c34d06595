#include "schedule/attributes.h"
#include "schedule/testing.h"

#include <gtest/gtest.h>

namespace llmd::plugins {
const plugin::Descriptor& latency_scorer();
const plugin::Descriptor& slo_headroom_tier_filter();

namespace {

using schedule::Filter;
using schedule::LatencyPrediction;
using schedule::PrefixMatch;
using schedule::Scorer;
using schedule::testing::Harness;
using Doubles = std::vector<double>;
using Kept = std::vector<uint32_t>;

constexpr auto kProducer = "predicted-latency-producer";

struct Headroom {
  double ttft;
  double tpot;
  bool busy = false;
  bool known = true;
};
constexpr Headroom kUnknown{0, 0, false, false};

void provide(Harness& harness, const std::vector<Headroom>& headrooms) {
  const auto predictions = harness.provide<LatencyPrediction>(kProducer);
  for (size_t i = 0; i < headrooms.size(); ++i)
    predictions[i] = {.present = headrooms[i].known,
                      .ttft_headroom = headrooms[i].ttft,
                      .tpot_headroom = headrooms[i].tpot,
                      .dispatched = headrooms[i].busy ? 1 : 0};
}

Doubles scores(const std::vector<Headroom>& headrooms, std::string_view parameters = "") {
  Harness harness(headrooms.size());
  provide(harness, headrooms);
  return harness.scores(harness.make<Scorer>(latency_scorer(), parameters));
}

TEST(LatencyScorer, RatesTheBestTier) {
  constexpr bool kBusy = true;
  EXPECT_EQ(scores({{10, 2}, {50, 10}}), (Doubles{1.01, .01}));
  EXPECT_EQ(scores({{10, 2}, {50, 10}}, "{headroomSelectionStrategy: most}"), (Doubles{.01, 1.01}));
  EXPECT_EQ(scores({{10, 5}, {20, 5}, {40, 5}}), (Doubles{1.01, .67, .01}));
  EXPECT_EQ(scores({{-10, -5, kBusy}, {-100, -30, kBusy}}), (Doubles{1.01, .01}));
  EXPECT_EQ(scores({{-50, -10, kBusy}, {-50, -10}}), (Doubles{0, .51}));
  EXPECT_EQ(scores({{-50, -10, kBusy}, {-30, 5, kBusy}, {10, -8, kBusy}}), (Doubles{0, 0, .51}));
  EXPECT_EQ(scores({{10, 20}, {20, 10}}), (Doubles{.81, .20}));
  EXPECT_EQ(scores({{-50, -10, kBusy}, {-30, 5, kBusy}}), (Doubles{0, .51}));
}

TEST(LatencyScorer, TakesUnpredictedEndpointsForOnesWithoutHeadroom) {
  EXPECT_EQ(scores({{100, 0}, kUnknown}), (Doubles{.01, 1.01}));
  EXPECT_EQ(scores({{-100, 0}, kUnknown}), (Doubles{0, .51}));
}

TEST(LatencyScorer, IgnoresWeightsThatSumToNothing) {
  EXPECT_EQ(scores({{10, 20}, {20, 10}}, "{ttftWeight: 0, tpotWeight: 0}"), (Doubles{1.01, .01}));
  EXPECT_EQ(scores({{10, 20}, {20, 10}}, "{headroomSelectionStrategy: any}"), (Doubles{.81, .20}));
}

TEST(LatencyScorer, ComposesAScoreWithoutPredictions) {
  Harness harness(3);
  const auto matches = harness.provide<PrefixMatch>("approx-prefix-cache-producer");
  const struct {
    double kv;
    int64_t queue;
    double prefix;
  } kCases[] = {{.2, 0, 0}, {.8, 5, 0}, {.5, 2, 75}};
  for (size_t i = 0; i < 3; ++i) {
    harness.metrics_of(i).kv_cache_usage = kCases[i].kv;
    harness.metrics_of(i).waiting_queue_size = kCases[i].queue;
    matches[i] = {.match_blocks = kCases[i].prefix, .total_blocks = 100};
  }
  EXPECT_EQ(harness.scores(harness.make<Scorer>(latency_scorer())), (Doubles{.60, .07, .62}));
  EXPECT_EQ(harness.scores(harness.make<Scorer>(
                latency_scorer(),
                "{compositeKVWeight: 0, compositeQueueWeight: 0, compositePrefixWeight: 0}")),
            (Doubles{.8, .2, .5}));
}

TEST(LatencyScorer, TakesEmptyQueuesForFree) {
  Harness harness(2);
  EXPECT_EQ(harness.scores(harness.make<Scorer>(latency_scorer(), "{compositePrefixWeight: 0}")),
            (Doubles{1, 1}));
}

Kept kept(const std::vector<Headroom>& headrooms, std::string_view parameters) {
  Harness harness(headrooms.size());
  provide(harness, headrooms);
  return harness.filtered(harness.make<Filter>(slo_headroom_tier_filter(), parameters));
}

TEST(SloHeadroomTierFilter, KeepsTheTierThatKeepsObjectives) {
  constexpr auto kNever = "{epsilonExploreNeg: 0}";
  EXPECT_EQ(kept({{5, 5}, {-1, 5}, {5, -1}, {0, 0}, kUnknown}, kNever), (Kept{0, 3}));
  EXPECT_EQ(kept({{5, 5}, {-1, 5}, kUnknown}, "{epsilonExploreNeg: 1}"), (Kept{1, 2}));
}

TEST(SloHeadroomTierFilter, KeepsAllOfASingleTier) {
  constexpr auto kAlways = "{epsilonExploreNeg: 1}";
  EXPECT_EQ(kept({{5, 5}, {1, 1}}, kAlways), (Kept{0, 1}));
  EXPECT_EQ(kept({{-5, 5}, {-1, 1}, kUnknown}, kAlways), (Kept{0, 1, 2}));
  EXPECT_EQ(kept({kUnknown, kUnknown}, kAlways), (Kept{0, 1}));
  Harness harness(2);
  EXPECT_EQ(harness.filtered(harness.make<Filter>(slo_headroom_tier_filter())), (Kept{0, 1}));
}

TEST(SloHeadroomTierFilter, ExploresAShareOfTheRequests) {
  Harness harness(2);
  provide(harness, {{5, 5}, {-1, 5}});
  const auto& filter = harness.make<Filter>(slo_headroom_tier_filter(), "{epsilonExploreNeg: 0.1}");
  int explored = 0;
  for (int i = 0; i < 10'000; ++i) explored += harness.filtered(filter) == Kept{1};
  EXPECT_NEAR(explored, 1000, 150);  // five standard deviations
}

}  // namespace
}  // namespace llmd::plugins
