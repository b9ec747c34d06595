#include "plugin_list.h"

#include "config/loader.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace llmd::regress {
namespace {

/// llm-d-router#1134, #2274, #919, #1690: misspelt fields were ignored, a producer was declared and
/// another one used, and names that had gone were not explained.
struct Case40 : ::testing::Test {
  Result<config::Loaded> load(const std::string& plugins) {
    return config::load("apiVersion: llm-d.ai/v1\nkind: EndpointPickerConfig\nplugins:\n" + plugins,
                        "f.yaml",
                        {.registry = registry,
                         .state = state,
                         .metrics = metrics,
                         .clock = clock,
                         .allow_experimental = true});
  }
  std::string error_of(const std::string& plugins) {
    const auto loaded = load(plugins);
    return loaded ? "" : loaded.error().message;
  }
  bool warns(const std::string& plugins, const std::string& text) {
    const auto loaded = load(plugins);
    EXPECT_TRUE(loaded) << loaded.error().message;
    return loaded && std::ranges::any_of(loaded->pipeline->warnings,
                                         [&](const auto& w) { return w.contains(text); });
  }

  plugin::Registry registry = builtin_plugins();
  plugin::StateStore state;
  metric::Registry metrics{1};
  ManualClock clock;
};

TEST_F(Case40, AMisspeltFieldIsNamedWithTheNearestOne) {
  const auto error =
      error_of("- {type: burst-prefix-cache-producer, parameters: {blokSizeTokens: 16}}\n");
  EXPECT_TRUE(error.contains("f.yaml:4")) << error;
  EXPECT_TRUE(error.contains("blokSizeTokens") && error.contains("blockSizeTokens")) << error;
}

TEST_F(Case40, AMisspeltTypeIsNamedWithTheNearestOne) {
  const auto error = error_of("- {type: queue-scorers}\n");
  EXPECT_TRUE(error.contains("queue-scorers") && error.contains("queue-scorer")) << error;
}

TEST_F(Case40, AProducerThatNobodyReadsIsNamedWithWhatToSet) {
  EXPECT_TRUE(warns("- {type: burst-prefix-cache-producer}\n- {type: prefix-cache-scorer}\n",
                    "set prefixMatchInfoProducerName"));
}

TEST_F(Case40, ZeroIsNotTheSameAsNothing) {
  EXPECT_EQ(error_of("- {type: load-aware-scorer, parameters: {}}\n"), "");
  EXPECT_NE(error_of("- {type: burst-prefix-cache-producer, parameters: {blockSizeTokens: 0}}\n"),
            "");
}

TEST_F(Case40, ADeprecatedTypeWorksWithOneWarning) {
  const auto loaded = load(
      "- {type: by-label-selector, parameters: {matchLabels: {a: b}}}\n- {type: queue-scorer}\n");
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(std::ranges::count_if(loaded->pipeline->warnings,
                                  [](const auto& w) { return w.contains("deprecated"); }),
            1);
}

TEST_F(Case40, WhatIsMadeByItselfIsListed) {
  const auto loaded = load("- {type: prefix-cache-scorer}\n");
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_TRUE(std::ranges::any_of(loaded->pipeline->resolved, [](const auto& plugin) {
    return plugin.type == "approx-prefix-cache-producer" && plugin.origin.contains("auto-created");
  }));
}

}  // namespace
}  // namespace llmd::regress
