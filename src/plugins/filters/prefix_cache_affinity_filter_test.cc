#include "schedule/attributes.h"
#include "schedule/testing.h"

#include <gtest/gtest.h>

namespace llmd::plugins {
const plugin::Descriptor& prefix_cache_affinity_filter();

namespace {

using schedule::Filter;
using schedule::InFlightLoad;
using schedule::LatencyPrediction;
using schedule::PrefixMatch;
using schedule::testing::Harness;
using Kept = std::vector<uint32_t>;

/// Endpoints whose matches are these percentages.
class Affinity : public ::testing::Test {
 protected:
  void matches(std::initializer_list<double> percents) {
    const auto column = harness_.provide<PrefixMatch>("approx-prefix-cache-producer");
    std::ranges::transform(percents, column.begin(), [](double percent) {
      return PrefixMatch{.match_blocks = percent, .total_blocks = 100};
    });
  }
  void load(std::initializer_list<int64_t> tokens) {
    const auto column = harness_.provide<InFlightLoad>("inflight-load-producer");
    std::ranges::transform(tokens, column.begin(),
                           [](int64_t t) { return InFlightLoad{.tokens = t}; });
  }
  Kept kept(std::string_view parameters = "") {
    return harness_.filtered(harness_.make<Filter>(prefix_cache_affinity_filter(), parameters));
  }

  Harness harness_{2};
  const Kept all_{0, 1};
};

TEST_F(Affinity, KeepsEndpointsWithThePrefix) {
  matches({90, 10});
  EXPECT_EQ(kept(), Kept{0});
  EXPECT_EQ(kept("{affinityThreshold: 0.9}"), Kept{0});
  EXPECT_EQ(kept("{affinityThreshold: 0.95}"), all_);
  EXPECT_EQ(kept("{affinityThreshold: 0.05}"), all_);
  EXPECT_EQ(kept("{affinityThreshold: 0}"), all_);
}

TEST_F(Affinity, KeepsAllWithoutMatches) {
  EXPECT_EQ(kept(), all_);
  matches({0, 0});
  EXPECT_EQ(kept(), all_);
}

TEST_F(Affinity, GivesThePrefixUpWhenWaitingCostsMore) {
  matches({90, 10});
  load({400000, 0});  // 25113 ms
  EXPECT_EQ(kept(), all_);
  load({200000, 0});  // 12556 ms
  EXPECT_EQ(kept(), Kept{0});
  load({400000, 200000});
  EXPECT_EQ(kept(), Kept{0});
  load({400000, 0});
  EXPECT_EQ(kept("{maxTTFTPenaltyMs: 0}"), Kept{0});
  EXPECT_EQ(kept("{peakPrefillThroughput: 25000}"), Kept{0});
}

TEST_F(Affinity, ComparesPredictedTimes) {
  matches({90, 10});
  const auto predictions = harness_.provide<LatencyPrediction>("predicted-latency-producer");
  predictions[0] = {.present = true, .ttft = 7000};
  predictions[1] = {.present = true, .ttft = 1000};
  constexpr auto kPredict = "{ttftSource: latencyPredictor, maxTTFTPenaltyMs: 5000}";
  EXPECT_EQ(kept(kPredict), all_);
  predictions[0].ttft = 5999;
  EXPECT_EQ(kept(kPredict), Kept{0});
  predictions[0].present = false;
  EXPECT_EQ(kept(kPredict), all_);
  predictions[1].present = false;
  EXPECT_EQ(kept(kPredict), Kept{0});
}

TEST_F(Affinity, LetsAShareOfTheRequestsExplore) {
  matches({90, 10});
  const auto& filter =
      harness_.make<Filter>(prefix_cache_affinity_filter(), "{explorationProbability: 0.25}");
  int explored = 0;
  for (int i = 0; i < 4000; ++i) explored += harness_.filtered(filter).size() == 2;
  EXPECT_NEAR(explored, 1000, 137);  // five standard deviations
  EXPECT_EQ(kept("{explorationProbability: 1}"), all_);
}

TEST_F(Affinity, NeedsTheLoadOrThePredictionsThatItCompares) {
  const auto keys = [&](std::string_view parameters) {
    const size_t before = harness_.wiring.edges().size();
    kept(parameters);
    std::vector<std::string> added;
    for (size_t i = before; i < harness_.wiring.edges().size(); ++i)
      added.push_back(harness_.wiring.edges()[i].key);
    return added;
  };
  using Keys = std::vector<std::string>;
  EXPECT_EQ(keys("{prefixMatchInfoProducerName: p, inFlightLoadProducerName: l}"),
            (Keys{"PrefixCacheMatchInfoDataKey/p", "InFlightLoadDataKey/l"}));
  EXPECT_EQ(keys("{ttftSource: latencyPredictor, latencyPredictionInfoProducerName: x}"),
            (Keys{"PrefixCacheMatchInfoDataKey/approx-prefix-cache-producer",
                  "LatencyPredictionInfoDataKey/x"}));
  EXPECT_EQ(keys("{maxTTFTPenaltyMs: 0}"),
            (Keys{"PrefixCacheMatchInfoDataKey/approx-prefix-cache-producer"}));
}

TEST_F(Affinity, RefusesParametersWithoutMeaning) {
  for (const auto* parameters :
       {"{affinityThreshold: 1.1}", "{explorationProbability: -0.1}", "{maxTTFTPenaltyMs: -1}",
        "{ttftSource: guess}", "{peakPrefillThroughput: 0}"})
    EXPECT_FALSE(harness_.try_make(prefix_cache_affinity_filter(), parameters)) << parameters;
  EXPECT_TRUE(harness_.try_make(prefix_cache_affinity_filter(),
                                "{peakPrefillThroughput: 0, maxTTFTPenaltyMs: 0}"));
}

}  // namespace
}  // namespace llmd::plugins
