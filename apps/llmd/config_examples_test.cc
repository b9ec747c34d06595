#include "config_fixture.h"

#include "config/dump.h"

#include <gtest/gtest.h>

#include <string>

namespace llmd {
namespace {

class ConfigExamples : public ConfigFixture {};

TEST_F(ConfigExamples, FollowTheVectorsOfParameters) {
  EXPECT_EQ(error_of("plugins: [{type: queue-scorer, parameters: {x: 1}}]"), "no error");
  EXPECT_EQ(error_of("plugins: [{type: load-aware-scorer, parameters: {x: 1}}]"),
            "f.yaml:3: plugin 'load-aware-scorer' (load-aware-scorer): parameter 'x': unknown");
  const auto loaded = load("plugins: [{type: load-aware-scorer, parameters: {THRESHOLD: 10}}]");
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->pipeline->resolved[0].parameters, R"({"threshold":10})");
}

TEST_F(ConfigExamples, LoadTheExperimentsConfigurations) {
  for (const std::string name : {"prefix-aware", "random"}) {
    const std::string path = std::string(LLMD_SOURCE_DIR) + "/deploy/examples/" + name + ".yaml";
    environment_.scrape_interval = std::chrono::seconds(1);
    const auto text = config::read_document(path);
    ASSERT_TRUE(text) << text.error().message;
    const auto loaded = load_document(*text, path);
    ASSERT_TRUE(loaded) << loaded.error().message;
    const auto& profile = loaded->pipeline->profiles.at(0);
    EXPECT_EQ(profile.picker.plugin->type(),
              name == "random" ? "random-picker" : "max-score-picker");
    EXPECT_EQ(profile.scorers.at(0).plugin->type(), "prefix-cache-scorer");
    EXPECT_TRUE(loaded->pipeline->warnings.empty()) << loaded->pipeline->warnings[0];
  }
}

TEST_F(ConfigExamples, LoadTheBuiltInDefault) {
  const auto loaded = load_document(config::default_document(), "default");
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->pipeline->producers.back().plugin->name(), "approx-prefix-cache-producer");
  EXPECT_TRUE(loaded->pipeline->warnings.empty()) << loaded->pipeline->warnings[0];
}

TEST_F(ConfigExamples, DumpToTheSameGraph) {
  const auto loaded = load(R"(
plugins: [{type: queue-scorer}, {type: load-aware-scorer}, {type: random-picker}]
)");
  ASSERT_TRUE(loaded) << loaded.error().message;
  const auto again = load_document(config::to_yaml(*loaded));
  ASSERT_TRUE(again) << again.error().message;
  ASSERT_EQ(again->pipeline->resolved.size(), loaded->pipeline->resolved.size());
  for (size_t i = 0; i < again->pipeline->resolved.size(); ++i) {
    EXPECT_EQ(again->pipeline->resolved[i].name, loaded->pipeline->resolved[i].name);
    EXPECT_EQ(again->pipeline->resolved[i].parameters, loaded->pipeline->resolved[i].parameters);
  }
}

/// Published configurations: one loads when all of its plugins exist, and else the one line of the
/// error names the first that is missing. tests/data/README.md says where they are
/// from.
TEST_F(ConfigExamples, LoadOrNameWhatIsMissing) {
  environment_.allow_experimental = true;
  const struct {
    std::string name;
    std::string missing;  // after the file's name; empty: it loads
  } kCases[] = {
      {"01-default", ""},
      {"02-precise-prefix", ""},
      {"03-prefill-decode-topology", ""},
      {"04-encode-prefill-decode", ""},
      {"05-predicted-latency", ""},
      {"06-flow-control", ""},
      {"07-data-parallel", ""},
      {"08-lora", ""},
      {"09-payload-agnostic", ""},
      {"10-gpu-aware", ""},
  };
  for (const auto& c : kCases) {
    const auto text = config::read_document(std::string(LLMD_SOURCE_DIR) + "/tests/data/config/" +
                                            c.name + ".yaml");
    ASSERT_TRUE(text) << text.error().message;
    const auto loaded = load_document(*text, c.name + ".yaml");
    EXPECT_EQ(loaded ? "" : loaded.error().message,
              c.missing.empty() ? "" : c.name + ".yaml" + c.missing);
  }
}

TEST_F(ConfigExamples, LoadThePublishedDefaultAsTheBuiltInOne) {
  const auto text =
      config::read_document(std::string(LLMD_SOURCE_DIR) + "/tests/data/config/01-default.yaml");
  ASSERT_TRUE(text) << text.error().message;
  const auto published = load_document(*text);
  const auto built_in = load_document(config::default_document());
  ASSERT_TRUE(published && built_in);
  EXPECT_EQ(config::to_yaml(*published), config::to_yaml(*built_in));
}

}  // namespace
}  // namespace llmd
