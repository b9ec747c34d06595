#include "schedule/testing.h"

#include <gtest/gtest.h>

namespace llmd::plugins {
const plugin::Descriptor& queue_scorer();
const plugin::Descriptor& running_requests_size_scorer();
const plugin::Descriptor& kv_cache_utilization_scorer();
const plugin::Descriptor& load_aware_scorer();

namespace {

using schedule::Scorer;
using schedule::testing::Harness;
using Doubles = std::vector<double>;

/// Scores of endpoints whose metric `field` has `values`, and nothing else.
template <class T>
Doubles scores(const plugin::Descriptor& descriptor, T fleet::EndpointMetrics::* field,
               const std::vector<T>& values, std::string_view parameters = "") {
  Harness harness(values.size());
  for (size_t i = 0; i < values.size(); ++i) harness.metrics_of(i).*field = values[i];
  return harness.scores(harness.make<Scorer>(descriptor, parameters));
}

constexpr auto kQueue = &fleet::EndpointMetrics::waiting_queue_size;
constexpr auto kRunning = &fleet::EndpointMetrics::running_requests_size;
constexpr auto kUsage = &fleet::EndpointMetrics::kv_cache_usage;

TEST(QueueScorer, RatesByPlaceBetweenShortestAndLongest) {
  EXPECT_EQ(scores(queue_scorer(), kQueue, {0, 5, 10}), (Doubles{1, .5, 0}));
  EXPECT_EQ(scores(queue_scorer(), kQueue, {3, 3}), (Doubles{1, 1}));
  EXPECT_EQ(scores(queue_scorer(), kQueue, {7, 2, 2, 12}), (Doubles{.5, 1, 1, 0}));
}

TEST(QueueScorer, LooksAtTheSelectionOnly) {
  Harness harness(3);
  for (size_t i = 0; i < 3; ++i) harness.metrics_of(i).waiting_queue_size = int64_t(i) * 10;
  const uint32_t selected[] = {1, 2};
  double out[2] = {};
  harness.make<Scorer>(queue_scorer()).score(harness.context, selected, out);
  EXPECT_EQ(out[0], 1);
  EXPECT_EQ(out[1], 0);
}

TEST(QueueScorer, IgnoresParameters) {
  Harness harness(1);
  EXPECT_TRUE(harness.try_make(queue_scorer(), "{x: 1}"));
  EXPECT_TRUE(harness.try_make(kv_cache_utilization_scorer(), "{x: 1}"));
  EXPECT_TRUE(harness.try_make(running_requests_size_scorer(), "{x: 1}"));
}

TEST(RunningRequestsSizeScorer, RatesByPlaceBetweenFewestAndMost) {
  const auto& descriptor = running_requests_size_scorer();
  EXPECT_EQ(scores(descriptor, kRunning, {0, 5, 10}), (Doubles{1, .5, 0}));
  EXPECT_EQ(scores(descriptor, kRunning, {3, 3}), (Doubles{1, 1}));
}

TEST(KvCacheUtilizationScorer, IsTheFreeFraction) {
  const auto got = scores(kv_cache_utilization_scorer(), kUsage, {.2, .85, 1.0, 1.2});
  const Doubles want = {.8, .15, 0, -.2};
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-15);
}

TEST(LoadAwareScorer, FallsFromHalfToZeroAtTheThreshold) {
  EXPECT_EQ(scores(load_aware_scorer(), kQueue, {0, 1, 64, 128, 500}),
            (Doubles{.5, .49609375, .25, 0, 0}));
  EXPECT_EQ(scores(load_aware_scorer(), kQueue, {5}, "{THRESHOLD: 10}"), (Doubles{.25}));
  EXPECT_EQ(scores(load_aware_scorer(), kQueue, {64}, "{threshold: -1}"), (Doubles{.25}));
}

TEST(LoadAwareScorer, RefusesUnknownParameters) {
  Harness harness(1);
  EXPECT_FALSE(harness.try_make(load_aware_scorer(), "{x: 1}"));
}

}  // namespace
}  // namespace llmd::plugins
