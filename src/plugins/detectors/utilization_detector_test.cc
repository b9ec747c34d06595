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

TEST(UtilizationDetector, CountsTheStaleEndpointsOfAllStages) {
  Harness harness(3);
  set(harness, {kStale, {0, 0}, kStale});
  const auto& detector = harness.make<SaturationDetector>(utilization_detector());
  const auto shown = [&] {
    const auto page = harness.metric_registry().render();
    const auto at = page.find("llm_d_epp_flow_control_stale_endpoints{");
    return page.substr(page.find("} ", at) + 2, 1);
  };
  const auto all = std::span(harness.context.candidates);
  const auto read = [&](std::initializer_list<std::span<schedule::Candidate>> stages) {
    for (const auto stage : stages) detector.saturation(stage, harness.clock.now());
  };
  read({all.first(1), all.subspan(1, 1)});
  EXPECT_EQ(shown(), "1");  // not that of the stage that was asked about last
  read({all.first(2), all});
  EXPECT_EQ(shown(), "2");  // each once, whatever its stages
  harness.clock.advance(50ms);
  read({all.first(1)});
  EXPECT_EQ(shown(), "2");
  harness.metrics_of(0) = {.updated = harness.clock.now(), .interval = 50ms};
  read({all.first(1)});
  EXPECT_EQ(shown(), "1");
  harness.clock.advance(1s);
  harness.metrics_of(0).updated = harness.clock.now();
  read({all.first(1)});
  EXPECT_EQ(shown(), "0");  // nobody asks about the last one any more
}

TEST(UtilizationDetector, LeavesStaleEndpointsOutWhenTold) {
  constexpr auto kParameters = "{stalenessPolicy: ignore}";
  EXPECT_NEAR(saturation({{1, .1}, kStale}, kParameters), .2, 1e-12);
  EXPECT_NEAR(saturation({{1, .1}, {0, .2}}, kParameters), .225, 1e-12);
  EXPECT_EQ(saturation({kStale, kStale}, kParameters), 0);
  EXPECT_EQ(saturation({}, kParameters), 1);
}

/// One endpoint through a series of loads under one detector.
class Series {
 public:
  explicit Series(std::string_view parameters)
      : detector_(harness_.make<schedule::SaturationDetector>(utilization_detector(), parameters)),
        filter_(dynamic_cast<const Filter&>(detector_)) {}

  double saturation(Load load) {
    set(harness_, {load, {0, 0}});
    return 2 * detector_.saturation(harness_.context.candidates, harness_.clock.now());
  }
  bool kept(Load load) {
    set(harness_, {load, {0, 0}});
    return harness_.filtered(filter_).size() == 2;
  }
  /// With so many requests sent there, of which the metrics show `running` and `waiting`.
  double pressure(int64_t sent, int64_t running, int64_t waiting) {
    set(harness_, {{waiting, 0}, {0, 0}});
    harness_.metrics_of(0).running_requests_size = running;
    harness_.endpoints[0]->open_requests = sent;
    return 2 * detector_.pressure(harness_.context.candidates, harness_.clock.now());
  }

 private:
  Harness harness_{2};
  const schedule::SaturationDetector& detector_;
  const Filter& filter_;
};

TEST(UtilizationDetector, WithHysteresisAFullEndpointStaysFullForAWhile) {
  Series series("{hysteresis: 0.4}");
  EXPECT_EQ(series.saturation({4, 0}), .8);
  EXPECT_EQ(series.saturation({5, 0}), 1);
  EXPECT_EQ(series.saturation({4, 0}), 1);
  EXPECT_EQ(series.saturation({3, .48}), 1);
  EXPECT_EQ(series.saturation({2, .8}), 1);
  EXPECT_EQ(series.saturation({2, .2}), .4);
  EXPECT_EQ(series.saturation({4, 0}), .8);
}

TEST(UtilizationDetector, WithHysteresisTheFilterRemembersToo) {
  Series series("{hysteresis: 0.4, headroom: 0.2}");
  EXPECT_TRUE(series.kept({5, 0}));
  EXPECT_FALSE(series.kept({6, 0}));
  EXPECT_FALSE(series.kept({4, 0}));
  EXPECT_FALSE(series.kept({0, .7}));
  EXPECT_TRUE(series.kept({3, .6}));
  EXPECT_TRUE(series.kept({5, 0}));
}

TEST(UtilizationDetector, WithoutHysteresisItForgetsAtOnce) {
  Series series("");
  EXPECT_EQ(series.saturation({5, 0}), 1);
  EXPECT_EQ(series.saturation({4, 0}), .8);
}

TEST(UtilizationDetector, PressureCountsWhatNoMetricsShowYet) {
  Series series("");
  EXPECT_EQ(series.pressure(0, 0, 0), 0);
  EXPECT_EQ(series.pressure(3, 0, 0), .6);   // three on their way
  EXPECT_EQ(series.pressure(8, 8, 0), 0);    // it runs eight
  EXPECT_EQ(series.pressure(10, 3, 0), .4);  // and has room for eight, so two wait
  EXPECT_EQ(series.pressure(8, 8, 2), .4);   // two of somebody else's
}

TEST(UtilizationDetector, KnowsWhatARequestWillAdd) {
  Harness harness(1);
  const auto& detector = harness.make<SaturationDetector>(utilization_detector());
  EXPECT_EQ(detector.step(4, 1000), .05);
  EXPECT_EQ(detector.step(0, 1000), 0);
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
        "{metricsStalenessThreshold: 0s}", "{headroom: -0.1}", "{hysteresis: -0.1}",
        "{hysteresis: 0.91}", "{stalenessPolicy: maybe}", "{unknown: 1}"})
    EXPECT_FALSE(harness.try_make(utilization_detector(), bad)) << bad;
  EXPECT_TRUE(harness.try_make(utilization_detector(), "{metricsStalenessThreshold: 5s}"));
}

}  // namespace
}  // namespace llmd::plugins
