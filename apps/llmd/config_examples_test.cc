#include "plugin_list.h"

#include "config/dump.h"
#include "config/loader.h"

#include <gtest/gtest.h>

#include <string>

namespace llmd {
namespace {

constexpr std::string_view kHead = "apiVersion: llm-d.ai/v1\nkind: EndpointPickerConfig\n";

/// Loads with the plugin types of the process.
class ConfigExamples : public testing::Test {
 protected:
  Result<config::Loaded> load(std::string_view text, std::string_view file = "f.yaml") {
    return config::load(text, file, environment_);
  }
  std::string error_of(std::string_view body) {
    const auto loaded = load(std::string(kHead).append(body));
    return loaded ? "no error" : loaded.error().message;
  }

  plugin::Registry registry_ = builtin_plugins();
  plugin::StateStore state_;
  metric::Registry metrics_{1};
  ManualClock clock_;
  config::Environment environment_{registry_, state_, metrics_, clock_};
};

TEST_F(ConfigExamples, FollowTheVectorsOfParameters) {
  EXPECT_EQ(error_of("plugins: [{type: queue-scorer, parameters: {x: 1}}]"), "no error");
  EXPECT_EQ(error_of("plugins: [{type: load-aware-scorer, parameters: {x: 1}}]"),
            "f.yaml:3: plugin 'load-aware-scorer' (load-aware-scorer): parameter 'x': unknown");
  const auto loaded = load(std::string(kHead) +
                           "plugins: [{type: load-aware-scorer, parameters: {THRESHOLD: 10}}]");
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->pipeline->resolved[0].parameters, R"({"threshold":10})");
}

TEST_F(ConfigExamples, LoadTheExperimentsConfigurations) {
  for (const std::string name : {"prefix-aware", "random"}) {
    const std::string path = std::string(LLMD_SOURCE_DIR) + "/deploy/examples/" + name + ".yaml";
    environment_.scrape_interval = std::chrono::seconds(1);
    const auto text = config::read_document(path);
    ASSERT_TRUE(text) << text.error().message;
    const auto loaded = load(*text, path);
    ASSERT_TRUE(loaded) << loaded.error().message;
    const auto& profile = loaded->pipeline->profiles.at(0);
    EXPECT_EQ(profile.picker.plugin->type(),
              name == "random" ? "random-picker" : "max-score-picker");
    EXPECT_EQ(profile.scorers.at(0).plugin->type(), "prefix-cache-scorer");
    EXPECT_TRUE(loaded->pipeline->warnings.empty()) << loaded->pipeline->warnings[0];
  }
}

TEST_F(ConfigExamples, LoadTheBuiltInDefault) {
  const auto loaded = load(config::default_document(), "default");
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->pipeline->producers.back().plugin->name(), "approx-prefix-cache-producer");
  EXPECT_TRUE(loaded->pipeline->warnings.empty()) << loaded->pipeline->warnings[0];
}

TEST_F(ConfigExamples, DumpToTheSameGraph) {
  const auto loaded = load(std::string(kHead) + R"(
plugins: [{type: queue-scorer}, {type: load-aware-scorer}, {type: random-picker}]
)");
  ASSERT_TRUE(loaded) << loaded.error().message;
  const auto again = load(config::to_yaml(*loaded));
  ASSERT_TRUE(again) << again.error().message;
  ASSERT_EQ(again->pipeline->resolved.size(), loaded->pipeline->resolved.size());
  for (size_t i = 0; i < again->pipeline->resolved.size(); ++i) {
    EXPECT_EQ(again->pipeline->resolved[i].name, loaded->pipeline->resolved[i].name);
    EXPECT_EQ(again->pipeline->resolved[i].parameters, loaded->pipeline->resolved[i].parameters);
  }
}

/// Examples of other deployments: they load, or the first thing that stops them is a type that is
/// not there.
TEST_F(ConfigExamples, LoadOrNameTheMissingType) {
  environment_.allow_experimental = true;
  constexpr std::string_view kBodies[] = {
      R"(plugins: [{type: queue-scorer}, {type: kv-cache-utilization-scorer}, {type: prefix-cache-scorer}, {type: lora-affinity-scorer}]
schedulingProfiles: [{name: default, plugins: [{pluginRef: queue-scorer}, {pluginRef: kv-cache-utilization-scorer}, {pluginRef: prefix-cache-scorer}, {pluginRef: lora-affinity-scorer, weight: 2}]}]
)",
      R"(plugins: [{type: active-request-scorer}, {type: session-affinity-scorer}, {type: passthrough-parser}]
requestHandler: {parsers: [{pluginRef: passthrough-parser}]}
schedulingProfiles: [{name: default, plugins: [{pluginRef: active-request-scorer, weight: 1}, {pluginRef: session-affinity-scorer, weight: 1}]}]
)",
      R"(plugins: [{type: prefix-cache-scorer}, {type: decode-filter}, {type: data-parallel-profile-handler, parameters: {primaryPort: 8000}}]
schedulingProfiles: [{name: default, plugins: [{pluginRef: decode-filter}, {pluginRef: prefix-cache-scorer, weight: 2}]}]
)",
      R"(plugins:
- {type: approx-prefix-cache-producer, parameters: {maxPrefixTokensToMatch: 16384}}
- {type: prefix-based-pd-decider, parameters: {nonCachedTokens: 256, promptTokens: 512}}
- {type: disagg-profile-handler, parameters: {deciders: {prefill: prefix-based-pd-decider}}}
- {type: prefix-cache-scorer}
- {type: queue-scorer}
- {type: prefill-filter}
- {type: decode-filter}
schedulingProfiles:
- {name: prefill, plugins: [{pluginRef: prefill-filter}, {pluginRef: prefix-cache-scorer, weight: 2}, {pluginRef: queue-scorer}]}
- {name: decode,  plugins: [{pluginRef: decode-filter},  {pluginRef: prefix-cache-scorer, weight: 2}, {pluginRef: queue-scorer}]}
)"};
  for (const auto body : kBodies) {
    const std::string error = error_of(body);
    const bool missing_type =
        error.contains("unknown type") || error.contains("which no plugin produces");
    EXPECT_TRUE(error == "no error" || missing_type) << error;
  }
}

}  // namespace
}  // namespace llmd
