#include "schedule/testing.h"

#include <gtest/gtest.h>

#include <cmath>

namespace llmd::plugins {
const plugin::Descriptor& multicluster_queue_scorer();
const plugin::Descriptor& multicluster_kv_cache_utilization_scorer();
const plugin::Descriptor& multicluster_prefix_cache_scorer();
const plugin::Descriptor& multicluster_approx_prefix_cache_producer();

namespace {

using schedule::Scorer;
using schedule::testing::Harness;

/// Scores of clusters whose attribute has these values; NaN: it is missing.
std::vector<double> scores(const plugin::Descriptor& descriptor, const std::string& key,
                           const std::vector<double>& values) {
  Harness harness(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    fleet::EngineDetails details;
    if (!std::isnan(values[i])) details.attributes.emplace_back(key, values[i]);
    harness.endpoints[i]->details.store(std::make_shared<const fleet::EngineDetails>(details));
  }
  return harness.scores(harness.make<Scorer>(descriptor));
}

TEST(MulticlusterQueueScorer, RatesByPlaceBetweenShortestAndLongest) {
  const auto queue = [](const std::vector<double>& sizes) {
    return scores(multicluster_queue_scorer(), "llm-d.ai/multicluster-queue-size/", sizes);
  };
  EXPECT_EQ(queue({0, 5, 10}), (std::vector<double>{1, .5, 0}));
  EXPECT_EQ(queue({2.5, 2.5}), (std::vector<double>{1.0, 1.0}));
  const auto with_gap = queue({2, NAN, 4});
  EXPECT_EQ(with_gap[0], 1);
  EXPECT_TRUE(std::isnan(with_gap[1]));
  EXPECT_EQ(with_gap[2], 0);
}

TEST(MulticlusterKvScorer, IsTheFreeFraction) {
  const auto free = scores(multicluster_kv_cache_utilization_scorer(),
                           "llm-d.ai/multicluster-kv-cache-utilization/", {.25, NAN});
  EXPECT_EQ(free[0], .75);
  EXPECT_TRUE(std::isnan(free[1]));
}

TEST(Multicluster, PluginsAreExperimental) {
  for (const auto* descriptor :
       {&multicluster_queue_scorer(), &multicluster_kv_cache_utilization_scorer(),
        &multicluster_prefix_cache_scorer(), &multicluster_approx_prefix_cache_producer()})
    EXPECT_EQ(descriptor->stability, plugin::Stability::kAlpha) << descriptor->type;
}

}  // namespace
}  // namespace llmd::plugins
