#include "fake_plugins.h"

#include "config/loader.h"

#include <gtest/gtest.h>

namespace llmd::config {
namespace {

class GraphTest : public testing::Test {
 protected:
  /// Loads the given plugins, with every scorer in the default profile.
  Result<Loaded> load(std::string_view plugins, std::string_view rest = "") {
    std::string text = "apiVersion: llm-d.ai/v1\nkind: EndpointPickerConfig\nplugins:\n";
    return config::load(text.append(plugins).append(rest), "f.yaml", environment_);
  }
  std::string error_of(std::string_view plugins, std::string_view rest = "") {
    const auto loaded = load(plugins, rest);
    return loaded ? "no error" : loaded.error().message;
  }
  std::string order_of(std::string_view plugins) {
    const auto loaded = load(plugins);
    if (!loaded) return loaded.error().message;
    std::string names;
    for (const auto& step : loaded->pipeline->producers)
      names += (names.empty() ? "" : " ") + step.plugin->name();
    return names;
  }
  std::vector<std::string> warnings(std::string_view plugins, std::string_view rest = "") {
    const auto loaded = load(plugins, rest);
    if (!loaded) return {loaded.error().message};
    return loaded->pipeline->warnings;
  }

  plugin::Registry registry_ = fake::registry();
  plugin::StateStore state_;
  metric::Registry metrics_{1};
  ManualClock clock_;
  Environment environment_{registry_, state_, metrics_, clock_};
};

using Lines = std::vector<std::string>;

TEST_F(GraphTest, CreatesProducersUntilNothingIsMissing) {
  EXPECT_EQ(order_of("- {type: prefix-cache-scorer}\n"), "approx-prefix-cache-producer");
  EXPECT_EQ(order_of("- {type: approx-prefix-cache-producer, parameters: {needs: "
                     "inflight-load-producer}}\n"),
            "inflight-load-producer approx-prefix-cache-producer");
}

TEST_F(GraphTest, CreatesADefaultBesideARenamedProducer) {
  EXPECT_EQ(order_of("- {name: mine, type: approx-prefix-cache-producer}\n"
                     "- {type: prefix-cache-scorer}\n"),
            "mine approx-prefix-cache-producer");
}

TEST_F(GraphTest, DoesNotCreateForOptionalKeys) {
  EXPECT_EQ(order_of("- {type: approx-prefix-cache-producer, parameters: {uses: "
                     "inflight-load-producer}}\n"),
            "approx-prefix-cache-producer");
}

TEST_F(GraphTest, OrdersByRequiredAndOptionalKeys) {
  EXPECT_EQ(order_of("- {name: a, type: precise-prefix-cache-producer, parameters: {needs: c}}\n"
                     "- {name: b, type: precise-prefix-cache-producer}\n"
                     "- {name: c, type: precise-prefix-cache-producer, parameters: {uses: d}}\n"
                     "- {name: d, type: precise-prefix-cache-producer}\n"),
            "b d c a");
}

TEST_F(GraphTest, RefusesCycles) {
  EXPECT_EQ(error_of("- {name: x, type: precise-prefix-cache-producer, parameters: {needs: a}}\n"
                     "- {name: a, type: precise-prefix-cache-producer, parameters: {needs: b}}\n"
                     "- {name: b, type: precise-prefix-cache-producer, parameters: {needs: a}}\n"),
            "f.yaml:5: plugin 'a' (precise-prefix-cache-producer): producers need each other: 'a' "
            "<- 'b' <- 'a'");
}

TEST_F(GraphTest, WarnsOfCyclesThroughOptionalKeys) {
  const Lines lines = warnings(
      "- {name: a, type: precise-prefix-cache-producer, parameters: {uses: b}}\n"
      "- {name: b, type: precise-prefix-cache-producer, parameters: {needs: a}}\n"
      "- {type: queue-scorer}\n");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0],
            "f.yaml:4: plugin 'a' (precise-prefix-cache-producer): runs before a producer whose "
            "optional output it reads: they read from each other");
}

TEST_F(GraphTest, RefusesKeysThatNobodyProduces) {
  EXPECT_EQ(error_of("- {name: precise, type: precise-prefix-cache-producer}\n"
                     "- {type: prefix-cache-scorer, parameters: {prefixMatchInfoProducerName: "
                     "precice}}\n"),
            "f.yaml:5: plugin 'prefix-cache-scorer' (prefix-cache-scorer): needs "
            "PrefixCacheMatchInfoDataKey of 'precice', which no plugin produces (did you mean "
            "'precise'?)");
}

TEST_F(GraphTest, RefusesOtherValueTypes) {
  EXPECT_EQ(error_of("- {type: mistyped-scorer}\n"),
            "f.yaml:4: plugin 'mistyped-scorer' (mistyped-scorer): reads "
            "'PrefixCacheMatchInfoDataKey/approx-prefix-cache-producer' as another type than "
            "'approx-prefix-cache-producer' produces");
}

TEST_F(GraphTest, RefusesReadersOfAnEarlierLayer) {
  EXPECT_EQ(error_of("- {type: early-detector}\n"),
            "f.yaml:4: plugin 'early-detector' (early-detector): runs before "
            "'approx-prefix-cache-producer', whose "
            "'PrefixCacheMatchInfoDataKey/approx-prefix-cache-producer' it reads");
}

TEST_F(GraphTest, KeepsTheNamingTrick) {
  EXPECT_EQ(order_of("- {name: approx-prefix-cache-producer, type: precise-prefix-cache-producer}\n"
                     "- {type: prefix-cache-scorer}\n"),
            "approx-prefix-cache-producer");
}

TEST_F(GraphTest, WarnsOfOutputThatNobodyConsumes) {
  EXPECT_EQ(warnings("- {type: precise-prefix-cache-producer}\n- {type: prefix-cache-scorer}\n"),
            Lines{"f.yaml:4: plugin 'precise-prefix-cache-producer' "
                  "(precise-prefix-cache-producer): its output is not consumed: "
                  "'prefix-cache-scorer' reads from 'approx-prefix-cache-producer'; set "
                  "prefixMatchInfoProducerName of 'prefix-cache-scorer' to "
                  "'precise-prefix-cache-producer'"});
  EXPECT_EQ(warnings("- {type: precise-prefix-cache-producer}\n- {type: queue-scorer}\n"),
            Lines{"f.yaml:4: plugin 'precise-prefix-cache-producer' "
                  "(precise-prefix-cache-producer): its output is not consumed"});
  EXPECT_EQ(warnings("- {type: precise-prefix-cache-producer}\n"
                     "- {type: prefix-cache-scorer, parameters: {prefixMatchInfoProducerName: "
                     "precise-prefix-cache-producer}}\n"),
            Lines{});
}

TEST_F(GraphTest, WarnsWhenNothingSchedules) {
  EXPECT_EQ(warnings("- {type: utilization-detector}\n"),
            Lines{"f.yaml: plugins: none schedules, so endpoints are chosen regardless of their "
                  "load and caches; declare scorers"});
  EXPECT_EQ(warnings("- {type: some-filter}\n"), Lines{});
}

TEST_F(GraphTest, WarnsOfUnusedPlugins) {
  EXPECT_EQ(warnings("- {type: queue-scorer}\n- {name: det, type: utilization-detector}\n"
                     "- {name: p, type: openai-parser}\n- {type: some-filter}\n",
                     "schedulingProfiles: [{name: a, plugins: [{pluginRef: some-filter}]}]\n"),
            (Lines{"f.yaml:4: plugin 'queue-scorer' (queue-scorer): is not used: no scheduling "
                   "profile refers to it",
                   "f.yaml:5: plugin 'det' (utilization-detector): is not used: "
                   "flowControl.saturationDetector is 'utilization-detector'",
                   "f.yaml:6: plugin 'p' (openai-parser): is not used: requestHandler.parsers does "
                   "not list it"}));
}

TEST_F(GraphTest, WarnsOfRefsWithoutEffect) {
  EXPECT_EQ(
      warnings("- {type: some-filter}\n- {type: utilization-detector}\n",
               "schedulingProfiles: [{name: a, plugins: [{pluginRef: some-filter, weight: 2}, "
               "{pluginRef: utilization-detector}]}]\n"),
      (Lines{"f.yaml:6: profile 'a': 'some-filter' has a weight, which only scorers have",
             "f.yaml:6: profile 'a': 'utilization-detector' has no effect: it is no filter, "
             "scorer or picker"}));
}

TEST_F(GraphTest, WarnsOfDeprecatedAndIgnoredSettings) {
  EXPECT_EQ(
      warnings("- {type: old-scorer}\n- {type: queue-scorer, parameters: {x: 1}}\n"
               "- {type: prefix-cache-scorer, parameters: {OLD: true}}\n",
               "flowControl: {maxBytes: 1Gi, enableEviction: true}\n"),
      (Lines{"f.yaml: flowControl: maxBytes, enableEviction have no effect while the feature "
             "gate flowControl is off",
             "f.yaml:4: plugin 'old-scorer' (old-scorer): the type is deprecated; use "
             "queue-scorer",
             "f.yaml:5: plugin 'queue-scorer' (queue-scorer): the type ignores its parameters",
             "f.yaml:6: plugin 'prefix-cache-scorer': parameter 'old' is deprecated"}));
}

TEST_F(GraphTest, WarnsOfAStalenessThresholdWithinTheScrapeInterval) {
  constexpr std::string_view kWarning =
      "plugin 'utilization-detector' (utilization-detector): metricsStalenessThreshold 200ms is "
      "not "
      "above the scrape interval 1s: every endpoint will count as stale; raise it";
  environment_.scrape_interval = std::chrono::seconds(1);
  EXPECT_EQ(warnings("- {type: queue-scorer}\n"), Lines{std::string(kWarning)});
  environment_.scrape_interval = std::chrono::milliseconds(50);
  EXPECT_EQ(warnings("- {type: queue-scorer}\n"), Lines{});
  EXPECT_EQ(warnings("- {type: queue-scorer}\n"
                     "- {type: metrics-data-source, parameters: {interval: 1s}}\n"),
            Lines{std::string(kWarning)});
}

}  // namespace
}  // namespace llmd::config
