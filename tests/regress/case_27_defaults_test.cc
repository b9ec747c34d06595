#include "plugin_list.h"

#include "config/dump.h"
#include "config/loader.h"

#include <gtest/gtest.h>

namespace llmd::regress {
namespace {

/// llm-d-router#2095: documented limits did not exist. What holds is in the dump of a configuration
/// that says nothing.
class Case27 : public ::testing::Test {
 protected:
  std::string dump(const std::string& flow) {
    plugin::StateStore state;
    const auto loaded = config::load(
        "apiVersion: llm-d.ai/v1\nkind: EndpointPickerConfig\nfeatureGates: [flowControl]\n" + flow,
        "f.yaml", {.registry = registry_, .state = state, .metrics = metrics_, .clock = clock_});
    EXPECT_TRUE(loaded) << loaded.error().message;
    return loaded ? config::to_yaml(*loaded) : "";
  }

  const plugin::Registry registry_ = builtin_plugins();
  metric::Registry metrics_{1};
  ManualClock clock_;
};

TEST_F(Case27, AnEmptyConfigurationHasEveryLimit) {
  const auto text = dump("");
  for (const auto* part : {"defaultRequestTTL: 1m", "noEndpointRequestTTL: 1m",
                           "maxBytes: 1000000000", "maxRequests: 5000"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  EXPECT_EQ(text.find("\n  maxBytes"), std::string::npos) << "no limit over all bands";
}

TEST_F(Case27, ZeroSecondsIsNoLimit) {
  const auto text = dump("flowControl: {defaultRequestTTL: 0s}\n");
  EXPECT_NE(text.find("defaultRequestTTL: 0s"), std::string::npos) << text;
}

TEST_F(Case27, ZeroOfABandIsTheDefault) {
  const auto text = dump("flowControl: {priorityBands: [{priority: 3, maxRequests: 0}]}\n");
  const auto band = text.find("- {priority: 3, ");
  ASSERT_NE(band, std::string::npos) << text;
  EXPECT_LT(text.find("maxRequests: 5000", band), text.find('\n', band)) << text;
}

}  // namespace
}  // namespace llmd::regress
