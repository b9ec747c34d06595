#include "schedule/testing.h"

#include <gtest/gtest.h>

namespace llmd::plugins {
const plugin::Descriptor& utilization_detector();

namespace {

using namespace std::chrono_literals;
using schedule::Filter;
using schedule::SaturationDetector;
using schedule::testing::Harness;
using Picks = std::vector<uint32_t>;

struct Load {
  int64_t waiting = 0;
  double kv = 0;
  bool stale = false;
};
constexpr Load kStale = {.stale = true};

void set(Harness& harness, const std::vector<Load>& loads) {
  harness.clock.advance(10s);
  for (size_t i = 0; i < loads.size(); ++i)
    harness.metrics_of(i) = {
        .waiting_queue_size = loads[i].waiting,
        .kv_cache_usage = loads[i].kv,
        .updated = loads[i].stale ? TimePoint() : harness.clock.now(),
        .interval = 50ms,
    };
}

double saturation(const std::vector<Load>& loads, std::string_view parameters = "") {
  Harness harness(loads.size());
  set(harness, loads);
  const auto& detector = harness.make<SaturationDetector>(utilization_detector(), parameters);
  return detector.saturation(harness.context.candidates, harness.clock.now());
}

Picks filtered(const std::vector<Load>& loads, std::string_view parameters = "") {
  Harness harness(loads.size());
  set(harness, loads);
  return harness.filtered(harness.make<Filter>(utilization_detector(), parameters));
}

TEST(UtilizationDetector, IsTheMeanOfTheFullerResource) {
  const struct {
    std::vector<Load> loads;
    double want;
  } cases[] = {
      {{}, 1.0},
      {{{0, 0}}, 0},
      {{{2, .5}}, .625},
      {{{5, .1}}, 1.0},
      {{{4, .64}}, .8},
      {{{0, 1.0}}, 1.25},
      {{{1, .1}, {0, .2}}, .225},
      {{{1, .1}, kStale}, .6},
      {{{15, .2}, {1, .1}}, 1.6},
      {{{7, .4}, {0, .9}, {2, .1}}, .975},
      {{kStale, kStale}, 1.0},
  };
  for (size_t i = 0; i < std::size(cases); ++i)
    EXPECT_NEAR(saturation(cases[i].loads), cases[i].want, 1e-12) << "case " << i;
}

TEST(UtilizationDetector, HonoursItsThresholds) {
  constexpr auto kParameters = "{kvCacheUtilThreshold: 0.9}";
  EXPECT_NEAR(saturation({{2, .5}}, kParameters), .5555555555555556, 1e-12);
  EXPECT_NEAR(saturation({kStale, {20, .2}, {1, .99}}, kParameters), 2.0333333333333333, 1e-12);
  EXPECT_NEAR(saturation({{5, 0}}, "{queueDepthThreshold: 10}"), .5, 1e-12);
}

TEST(UtilizationDetector, DisbelievesMetricsOlderThanTheThreshold) {
  Harness harness(1);
  set(harness, {{0, 0}});
  const auto& detector = harness.make<SaturationDetector>(utilization_detector());
  harness.clock.advance(200ms);
  EXPECT_EQ(detector.saturation(harness.context.candidates, harness.clock.now()), 0);
  harness.clock.advance(1ns);
  EXPECT_EQ(detector.saturation(harness.context.candidates, harness.clock.now()), 1);
}

TEST(UtilizationDetector, GrantsSlowlyScrapedEndpointsTheirInterval) {
  Harness harness(1);
  set(harness, {{0, 0}});
  harness.metrics_of(0).interval = 1s;
  const auto& detector = harness.make<SaturationDetector>(utilization_detector());
  harness.clock.advance(1200ms);
  EXPECT_EQ(detector.saturation(harness.context.candidates, harness.clock.now()), 0);
  harness.clock.advance(1ms);
  EXPECT_EQ(detector.saturation(harness.context.candidates, harness.clock.now()), 1);
}

TEST(UtilizationDetector, ShowsHowManyEndpointsWereStale) {
  Harness harness(3);
  set(harness, {kStale, {0, 0}, kStale});
  const auto& detector =
      harness.make<SaturationDetector>(utilization_detector(), "", "my-detector");
  const auto shown = [&](std::string_view value) {
    const std::string line =
        "llm_d_epp_flow_control_stale_endpoints{detector=\"my-detector\"} " + std::string(value);
    return harness.metric_registry().render().find(line + "\n") != std::string::npos;
  };
  detector.saturation(harness.context.candidates, harness.clock.now());
  EXPECT_TRUE(shown("2"));
  detector.saturation({}, harness.clock.now());
  EXPECT_TRUE(shown("0"));
}

TEST(UtilizationDetector, FiltersFullAndStaleEndpoints) {
  EXPECT_EQ(filtered({{4, .79}, {5, 0}, {0, .8}, kStale, {0, 0}}), (Picks{0, 4}));
}

TEST(UtilizationDetector, FiltersWithHeadroom) {
  EXPECT_EQ(filtered({{5, .95}, {6, 0}, {0, .9601}, {5, .8}}, "{headroom: 0.2}"), (Picks{0, 3}));
}

TEST(UtilizationDetector, KeepsEveryoneWhenNobodyHasRoom) {
  EXPECT_EQ(filtered({{9, 0}, kStale, {0, 1}}), (Picks{0, 1, 2}));
}

TEST(UtilizationDetector, ChecksItsParameters) {
  Harness harness(1);
  for (const auto* bad :
       {"{queueDepthThreshold: 0}", "{kvCacheUtilThreshold: 0}", "{kvCacheUtilThreshold: 1.1}",
        "{metricsStalenessThreshold: 0s}", "{headroom: -0.1}", "{unknown: 1}"})
    EXPECT_FALSE(harness.try_make(utilization_detector(), bad)) << bad;
  EXPECT_TRUE(harness.try_make(utilization_detector(), "{metricsStalenessThreshold: 5s}"));
}

}  // namespace
}  // namespace llmd::plugins
