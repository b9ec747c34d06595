#include "schedule/attributes.h"
#include "schedule/testing.h"

#include <gtest/gtest.h>

namespace llmd::plugins {
const plugin::Descriptor& single_profile_handler();
const plugin::Descriptor& queue_scorer();
const plugin::Descriptor& kv_cache_utilization_scorer();
const plugin::Descriptor& prefix_cache_scorer();
const plugin::Descriptor& max_score_picker();

namespace {

using schedule::Picker;
using schedule::PrefixMatch;
using schedule::Scorer;
using schedule::testing::Harness;

template <class T>
schedule::Step<T> step(Harness& harness, const plugin::Descriptor& descriptor,
                       std::string_view parameters = "") {
  static const metric::Definition kDuration = {
      .name = "duration", .kind = metric::Kind::kHistogram, .help = "Duration."};
  return {&harness.make<T>(descriptor, parameters),
          harness.metric_registry().family(kDuration).histogram({})};
}

TEST(DefaultProfile, WeighsQueueCacheAndPrefix) {
  Harness harness(3);
  schedule::Pipeline pipeline;
  auto& profile = pipeline.profiles.emplace_back();
  profile.scorers.push_back({step<Scorer>(harness, queue_scorer()), 2});
  profile.scorers.push_back({step<Scorer>(harness, kv_cache_utilization_scorer()), 2});
  profile.scorers.push_back({step<Scorer>(harness, prefix_cache_scorer()), 3});
  profile.picker = step<Picker>(harness, max_score_picker(), "{maxNumOfEndpoints: 3}");
  pipeline.handler = step<schedule::ProfileHandler>(harness, single_profile_handler());

  const int64_t queue[] = {2, 0, 8};
  const double usage[] = {.5, .9, .1};
  const double match[] = {12, 0, 16};
  const auto matches = harness.provide<PrefixMatch>("approx-prefix-cache-producer");
  for (size_t i = 0; i < 3; ++i) {
    harness.metrics_of(i).waiting_queue_size = queue[i];
    harness.metrics_of(i).kv_cache_usage = usage[i];
    matches[i] = {.match_blocks = match[i], .total_blocks = 16, .block_tokens = 64};
  }
  ASSERT_TRUE(schedule::run_scheduler(harness.context, pipeline));

  const auto& result = harness.context.results[0];
  const double want[] = {4.75, 2.2, 4.8};
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(result.totals[i], want[i], 1e-12);
  EXPECT_EQ(std::vector<uint32_t>(result.targets.begin(), result.targets.end()),
            (std::vector<uint32_t>{2, 0, 1}));
  EXPECT_EQ(&harness.context.target(), harness.endpoints[2].get());
}

}  // namespace
}  // namespace llmd::plugins
