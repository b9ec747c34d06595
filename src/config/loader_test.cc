#include "config/loader.h"

#include "fake_plugins.h"

#include <gtest/gtest.h>

namespace llmd::config {
namespace {

class LoaderTest : public testing::Test {
 protected:
  Result<Loaded> load(std::string_view body) {
    const std::string text = "apiVersion: llm-d.ai/v1\nkind: EndpointPickerConfig\n";
    return config::load(text + std::string(body), "f.yaml", environment_);
  }
  std::string error_of(std::string_view body) {
    const auto loaded = load(body);
    return loaded ? "no error" : loaded.error().message;
  }
  /// The pipeline of a document that must load, kept until the next call.
  const schedule::Pipeline& pipeline(std::string_view body) {
    auto loaded = load(body);
    EXPECT_TRUE(loaded) << (loaded ? "" : loaded.error().message);
    static const schedule::Pipeline kNone;
    if (!loaded) return kNone;
    loaded_ = std::move(*loaded);
    return *loaded_.pipeline;
  }
  std::vector<std::string> warnings(std::string_view body) { return pipeline(body).warnings; }

  static std::string names(const auto& steps) {
    std::string all;
    for (const auto& step : steps) all += (all.empty() ? "" : " ") + step.plugin->name();
    return all;
  }
  static std::string origin(const schedule::Pipeline& pipeline, std::string_view name) {
    for (const auto& plugin : pipeline.resolved)
      if (plugin.name == name) return plugin.origin;
    return "absent";
  }

  plugin::Registry registry_ = fake::registry();
  plugin::StateStore state_;
  metric::Registry metrics_{1};
  ManualClock clock_;
  Environment environment_{registry_, state_, metrics_, clock_};
  Loaded loaded_;
};

TEST_F(LoaderTest, CompletesTheBuiltInDefault) {
  const auto loaded = config::load(default_document(), "default", environment_);
  ASSERT_TRUE(loaded) << loaded.error().message;
  const auto& p = *loaded->pipeline;
  ASSERT_EQ(p.profiles.size(), 1u);
  EXPECT_EQ(p.profiles[0].name, "default");
  EXPECT_EQ(names(p.profiles[0].scorers),
            "queue-scorer kv-cache-utilization-scorer prefix-cache-scorer");
  EXPECT_EQ(p.profiles[0].scorers[0].weight, 2);
  EXPECT_EQ(p.profiles[0].scorers[2].weight, 3);
  EXPECT_EQ(p.profiles[0].picker.plugin->name(), "max-score-picker");
  EXPECT_EQ(p.handler.plugin->name(), "single-profile-handler");
  EXPECT_EQ(p.detector->name(), "utilization-detector");
  ASSERT_TRUE(p.load_feed());
  EXPECT_EQ(p.load_feed()->source->name(), "metrics-data-source");
  EXPECT_EQ(p.load_feed()->extractor->name(), "core-metrics-extractor");
  EXPECT_EQ(names(p.producers), "approx-prefix-cache-producer");
  EXPECT_EQ(names(p.pre_request), "approx-prefix-cache-producer");
  EXPECT_EQ(origin(p, "queue-scorer"), "configured");
  EXPECT_EQ(origin(p, "openai-parser"), "default");
  EXPECT_EQ(origin(p, "approx-prefix-cache-producer"), "auto-created for 'prefix-cache-scorer'");
  EXPECT_EQ(p.plugins.size(), p.resolved.size());
  EXPECT_TRUE(p.warnings.empty()) << p.warnings[0];
}

TEST_F(LoaderTest, MakesAProfileOfEverything) {
  const auto& p = pipeline("plugins: [{type: queue-scorer}, {type: random-picker}]");
  ASSERT_EQ(p.profiles.size(), 1u);
  EXPECT_EQ(names(p.profiles[0].scorers), "queue-scorer");
  EXPECT_EQ(p.profiles[0].scorers[0].weight, 1.0);
  EXPECT_EQ(p.profiles[0].picker.plugin->name(), "random-picker");
  EXPECT_EQ(origin(p, "max-score-picker"), "absent");
  EXPECT_EQ(origin(p, "single-profile-handler"), "default");
}

TEST_F(LoaderTest, LoadsWithoutAnyPlugin) {
  const auto& p = pipeline("");
  ASSERT_EQ(p.profiles.size(), 1u);
  EXPECT_EQ(p.profiles[0].picker.plugin->name(), "max-score-picker");
}

TEST_F(LoaderTest, PrefersMaxScoreWhenPickersAreShared) {
  constexpr std::string_view kBody = R"(
plugins: [{type: random-picker}, {name: top, type: max-score-picker}]
schedulingProfiles: [{name: a}]
)";
  EXPECT_EQ(pipeline(kBody).profiles[0].picker.plugin->name(), "top");
}

TEST_F(LoaderTest, PutsAPluginIntoEverySlotItFills) {
  const auto& p = pipeline(R"(
plugins: [{type: context-length-aware}]
schedulingProfiles: [{name: a, plugins: [{pluginRef: context-length-aware, weight: 0.5}]}]
)");
  EXPECT_EQ(names(p.profiles[0].filters), "context-length-aware");
  EXPECT_EQ(names(p.profiles[0].scorers), "context-length-aware");
  EXPECT_EQ(p.profiles[0].scorers[0].weight, 0.5);
}

TEST_F(LoaderTest, RefusesWhatCannotRun) {
  const struct {
    std::string_view body, error;
  } kCases[] = {
      {"plugins: [{type: quue-scorer}]",
       "f.yaml:3: plugin 'quue-scorer': unknown type 'quue-scorer' (did you mean 'queue-scorer'?)"},
      {"plugins: [{type: prefix-cache-scorer, parameters: {blokSize: 1}}, {type: quue-scorer}]",
       "f.yaml:3: plugin 'quue-scorer': unknown type 'quue-scorer' (did you mean 'queue-scorer'?)"},
      {"plugins: [{type: kv-cache-utilization-scorer, parameters: {x: 1}}]",
       "f.yaml:3: plugin 'kv-cache-utilization-scorer' (kv-cache-utilization-scorer): parameter "
       "'x': unknown"},
      {"plugins: [{name: p, type: prefix-cache-scorer, parameters: {blokSize: 16}}]",
       "f.yaml:3: plugin 'p' (prefix-cache-scorer): parameter 'blokSize': unknown (did you mean "
       "'blockSize'?)"},
      {"schedulingProfiles: [{name: a, plugins: [{pluginRef: queue-scorer}]}]",
       "f.yaml:3: pluginRef: no plugin is named 'queue-scorer'; declare it under plugins"},
      {"plugins: [{type: queue-scorer}]\n"
       "schedulingProfiles: [{name: a, plugins: [{pluginRef: quue-scorer}]}]",
       "f.yaml:4: pluginRef: no plugin is named 'quue-scorer' (did you mean 'queue-scorer'?)"},
      {"schedulingProfiles: [{name: a, plugins: [{pluginRef: approx-prefix-cache-producer}]}]",
       "f.yaml:3: pluginRef: no plugin is named 'approx-prefix-cache-producer'; declare it under "
       "plugins"},
      {"schedulingProfiles: [{name: a}, {name: b}]",
       "f.yaml: 2 profiles need a profile handler; declare one under plugins"},
      {"plugins: [{type: single-profile-handler}]\nschedulingProfiles: [{name: a}, {name: b}]",
       "f.yaml:3: plugin 'single-profile-handler' (single-profile-handler): takes one profile, "
       "not 2"},
      {"plugins: [{type: single-profile-handler}, {name: b, type: single-profile-handler}]",
       "f.yaml:3: plugin 'b' (single-profile-handler): is a second profile handler beside "
       "'single-profile-handler'; there must be one"},
      {"plugins: [{type: random-picker}, {type: max-score-picker}]",
       "f.yaml:3: profile 'default': 'max-score-picker' is a second picker beside "
       "'random-picker'"},
      {"plugins: [{type: alpha-scorer}]",
       "f.yaml:3: plugin 'alpha-scorer' (alpha-scorer): is experimental; start with "
       "--allow-experimental-plugins to use it"},
      {"plugins: [{type: queue-scorer}]\nflowControl: {saturationDetector: {pluginRef: "
       "queue-scorer}}",
       "f.yaml:4: pluginRef 'queue-scorer' (queue-scorer): is no saturation detector"},
      {"flowControl: {saturationDetector: {pluginRef: concurrency-detector}}",
       "f.yaml:3: flowControl.saturationDetector: no plugin is named 'concurrency-detector'"},
      {"plugins: [{type: queue-scorer}]\nrequestHandler: {parsers: [{pluginRef: queue-scorer}]}",
       "f.yaml:4: pluginRef 'queue-scorer' (queue-scorer): is no parser"},
      {"requestHandler: {parsers: [{pluginRef: opnai-parser}]}",
       "f.yaml:3: plugin 'opnai-parser': unknown type 'opnai-parser' (did you mean "
       "'openai-parser'?)"},
      {"plugins: [{type: queue-scorer}]\ndataLayer: {sources: [{pluginRef: queue-scorer}]}",
       "f.yaml:4: pluginRef 'queue-scorer' (queue-scorer): is no data source"},
      {"plugins: [{type: queue-scorer}]\ndataLayer: {discovery: {pluginRef: queue-scorer}}",
       "f.yaml:4: pluginRef 'queue-scorer' (queue-scorer): is no discovery plugin"},
      {"plugins: [{name: max-score-picker, type: queue-scorer}]",
       "f.yaml:3: plugin 'max-score-picker' (queue-scorer): the name is needed for the plugin "
       "max-score-picker, default; choose another"},
  };
  for (const auto& c : kCases) EXPECT_EQ(error_of(c.body), c.error) << c.body;
}

TEST_F(LoaderTest, AcceptsAlphaWhenAllowed) {
  environment_.allow_experimental = true;
  EXPECT_EQ(error_of("plugins: [{type: alpha-scorer}]"), "no error");
}

TEST_F(LoaderTest, InstantiatesListedParsersByType) {
  const auto& p = pipeline("requestHandler: {parsers: [{pluginRef: passthrough-parser}]}");
  EXPECT_EQ(origin(p, "passthrough-parser"), "default");
  EXPECT_EQ(origin(p, "openai-parser"), "absent");
}

TEST_F(LoaderTest, TakesAMetricsSourceByItsType) {
  const auto& p = pipeline(R"(
plugins: [{name: mine, type: metrics-data-source}, {type: core-metrics-extractor}, {type: queue-scorer}]
dataLayer: {sources: [{pluginRef: mine, extractors: [{pluginRef: core-metrics-extractor}]}]}
)");
  ASSERT_TRUE(p.load_feed());
  EXPECT_EQ(p.load_feed()->source->name(), "mine");
  EXPECT_EQ(origin(p, "metrics-data-source"), "absent");
  EXPECT_TRUE(p.warnings.empty());
}

TEST_F(LoaderTest, LeavesTheDataLayerAloneWhenTold) {
  const auto& p = pipeline("dataLayer: {injectDefaults: false}");
  EXPECT_TRUE(p.feeds.empty());
  EXPECT_EQ(origin(p, "metrics-data-source"), "absent");
}

TEST_F(LoaderTest, KeepsTheDiscoveryPlugin) {
  pipeline("plugins: [{name: d, type: file-discovery}]\ndataLayer: {discovery: {pluginRef: d}}");
  ASSERT_NE(loaded_.discovery, nullptr);
  EXPECT_EQ(loaded_.discovery->name(), "d");
}

TEST_F(LoaderTest, NamesTheDiscoveryFieldInErrors) {
  EXPECT_EQ(error_of("dataLayer: {discovery: {pluginRef: file-discovery}}"),
            "f.yaml:3: dataLayer.discovery: no plugin is named 'file-discovery'; declare it under "
            "plugins");
}

}  // namespace
}  // namespace llmd::config
