#include "config/dump.h"

#include "fake_plugins.h"

#include <gtest/gtest.h>

namespace llmd::config {
namespace {

constexpr std::string_view kDocument = R"(apiVersion: llm-d.ai/v1
kind: EndpointPickerConfig
plugins:
- {type: some-filter}
- {name: q, type: queue-scorer}
- {type: prefix-cache-scorer, parameters: {blockSize: 64}}
schedulingProfiles:
- name: default
  plugins: [{pluginRef: some-filter}, {pluginRef: q, weight: 0.5}, {pluginRef: prefix-cache-scorer}]
requestHandler: {parsers: [{pluginRef: openai-parser}]}
)";

class DumpTest : public testing::Test {
 protected:
  Loaded load(std::string_view text) {
    auto loaded = config::load(text, "f.yaml", environment_);
    EXPECT_TRUE(loaded) << loaded.error().message;
    return loaded ? std::move(*loaded) : Loaded{};
  }

  plugin::Registry registry_ = fake::registry();
  plugin::StateStore state_;
  metric::Registry metrics_{1};
  ManualClock clock_;
  Environment environment_{registry_, state_, metrics_, clock_};
};

TEST_F(DumpTest, PrintsTheResolvedGraph) {
  EXPECT_EQ(to_text(load(kDocument)), R"(configuration f.yaml
gates
  flowControl: off
  haPopulateNonLeaderDatastore: on
plugins
  some-filter  [configured]
  q (queue-scorer)  [configured]
  prefix-cache-scorer  [configured]
      {"prefixMatchInfoProducerName":"approx-prefix-cache-producer","blockSize":64}
  single-profile-handler  [default]
  max-score-picker  [default]
  openai-parser  [default]
  utilization-detector  [default]
      {"metricsStalenessThreshold":"200ms"}
  metrics-data-source  [default]
      {"interval":null}
  core-metrics-extractor  [default]
  approx-prefix-cache-producer  [auto-created for 'prefix-cache-scorer']
      {"needs":"","uses":""}
profiles, run by single-profile-handler
  default
    filters  some-filter
    scorers  q x 0.5, prefix-cache-scorer x 1
    picker   max-score-picker
request
  parsers      openai-parser
  detector     utilization-detector
  screeners    -
  producers    approx-prefix-cache-producer
  admitters    -
  pre-request  approx-prefix-cache-producer
  response     -
data
  discovery    -
  source       metrics-data-source -> core-metrics-extractor
warnings
  -
)");
}

TEST_F(DumpTest, PrintsYamlThatLoadsToTheSameGraph) {
  std::string first = to_yaml(load(kDocument));
  const Loaded again = load(first);
  EXPECT_EQ(again.pipeline->profiles[0].scorers[0].weight, 0.5);
  const std::string second = to_yaml(again);
  for (const std::string origin : {"default", "auto-created for 'prefix-cache-scorer'"})
    for (size_t at; (at = first.find("# " + origin + "\n")) != std::string::npos;)
      first.replace(at, origin.size() + 2, "# configured");
  const size_t warnings = second.find("apiVersion");
  EXPECT_EQ(second.substr(warnings), first);
}

TEST_F(DumpTest, ListsEveryTypeInTheReference) {
  const std::string page = plugins_reference(registry_);
  for (const auto type : registry_.types())
    EXPECT_NE(page.find("### " + std::string(type) + "\n"), std::string::npos) << type;
  EXPECT_NE(page.find("| `blockSize` | int (tokens) | `16` |  Limits: > 0. |"), std::string::npos)
      << page;
}

}  // namespace
}  // namespace llmd::config
