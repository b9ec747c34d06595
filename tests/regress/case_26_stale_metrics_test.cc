#include "flow_stage.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace llmd::regress {
namespace {

/// llm-d-router#2100, GIE#2049: with a staleness threshold below the scrape interval every endpoint
/// counts as full, nothing is dispatched, and nothing says why. Start-up says it, and so does a
/// gauge.
std::vector<std::string> warnings_at(const std::string& threshold, Nanos interval) {
  const auto registry = builtin_plugins();
  plugin::StateStore state;
  metric::Registry metrics(1);
  ManualClock clock;
  const auto loaded = config::load(
      "apiVersion: llm-d.ai/v1\nkind: EndpointPickerConfig\nplugins:\n- {type: "
      "utilization-detector, "
      "parameters: {metricsStalenessThreshold: " +
          threshold + "}}\n- {type: queue-scorer}\n",
      "f.yaml",
      {.registry = registry,
       .state = state,
       .metrics = metrics,
       .clock = clock,
       .scrape_interval = interval});
  EXPECT_TRUE(loaded) << loaded.error().message;
  return loaded ? loaded->pipeline->warnings : std::vector<std::string>{};
}

TEST(Case26, AThresholdBelowTheScrapeIntervalIsNamedAtStartUp) {
  const auto found = warnings_at("200ms", std::chrono::seconds(1));
  EXPECT_TRUE(std::ranges::any_of(found, [](const auto& warning) {
    return warning.contains("metricsStalenessThreshold 200ms") && warning.contains("1s");
  })) << ::testing::PrintToString(found);
  EXPECT_TRUE(warnings_at("5s", std::chrono::seconds(1)).empty());
}

TEST(Case26, WithoutMetricsRequestsWaitAndTheGaugeSaysWhy) {
  FlowStage stage("plugins: [{type: queue-scorer}]\n", 3);
  stage.advance(std::chrono::seconds(1));
  auto& waits = stage.come();
  EXPECT_FALSE(waits.sent);
  EXPECT_EQ(stage.waiting(), 1u);
  EXPECT_TRUE(
      stage.shows("llm_d_epp_flow_control_stale_endpoints{detector=\"utilization-detector\"} 3"));
  EXPECT_TRUE(
      stage.shows("llm_d_epp_flow_control_pool_saturation{inference_pool=\"pool\",stage="
                  "\"effective\"} 1"));
  // One of them recovers.
  stage.scraped(0, {});
  stage.advance(std::chrono::milliseconds(10));
  EXPECT_TRUE(waits.sent);
}

}  // namespace
}  // namespace llmd::regress
