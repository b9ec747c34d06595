#include "schedule/attributes.h"
#include "schedule/testing.h"

#include <gtest/gtest.h>

namespace llmd::plugins {
const plugin::Descriptor& utilization_filter();

namespace {

using schedule::Filter;
using schedule::testing::Harness;
using Kept = std::vector<uint32_t>;

/// Endpoint i has i requests waiting, 10 i running, i / 4 of its cache in use and 100 i in flight.
Kept kept(const std::string& conditions, std::string_view more = "") {
  Harness harness(4);
  const auto load = harness.provide<schedule::InFlightLoad>("inflight-load-producer");
  for (size_t i = 0; i < 4; ++i) {
    const auto n = static_cast<int64_t>(i);
    harness.metrics_of(i).waiting_queue_size = n;
    harness.metrics_of(i).running_requests_size = 10 * n;
    harness.metrics_of(i).kv_cache_usage = 0.25 * static_cast<double>(i);
    load[i].requests = 100 * n;
  }
  return harness.filtered(harness.make<Filter>(
      utilization_filter(), "{conditions: [" + conditions + "]" + std::string(more) + "}"));
}

TEST(UtilizationFilter, KeepsEndpointsWithinTheLimits) {
  EXPECT_EQ(kept("{metric: waiting-queue, maxValue: 1}"), (Kept{0, 1}));
  EXPECT_EQ(kept("{metric: running-requests, maxValue: 29.5}"), (Kept{0, 1, 2}));
  EXPECT_EQ(kept("{metric: kv-cache-utilization, maxValue: 0}"), Kept{0});
  EXPECT_EQ(kept("{metric: active-requests, maxValue: 200}"), (Kept{0, 1, 2}));
  EXPECT_EQ(kept("{metric: active-requests, maxValue: 200}, {metric: waiting-queue, maxValue: 1}"),
            (Kept{0, 1}));
}

TEST(UtilizationFilter, FallsBackToAllWhenAsked) {
  Harness harness(2);
  for (size_t i = 0; i < 2; ++i) harness.metrics_of(i).waiting_queue_size = 5;
  const std::string conditions = "conditions: [{metric: waiting-queue, maxValue: 1}]";
  EXPECT_EQ(harness.filtered(harness.make<Filter>(utilization_filter(), "{" + conditions + "}")),
            Kept{});
  EXPECT_EQ(harness.filtered(harness.make<Filter>(utilization_filter(),
                                                  "{" + conditions + ", fallbackOnEmpty: true}")),
            (Kept{0, 1}));
}

TEST(UtilizationFilter, RefusesConditionsWithoutMeaning) {
  Harness harness(1);
  for (const auto* conditions :
       {"", "{metric: waiting-queue}", "{maxValue: 1}", "{metric: queue, maxValue: 1}",
        "{metric: waiting-queue, maxValue: -1}", "{metric: kv-cache-utilization, maxValue: 1.1}"})
    EXPECT_FALSE(
        harness.try_make(utilization_filter(), "{conditions: [" + std::string(conditions) + "]}"))
        << conditions;
}

}  // namespace
}  // namespace llmd::plugins
