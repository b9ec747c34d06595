#include "config_fixture.h"

#include "config/dump.h"
#include "flow/service.h"

#include <gtest/gtest.h>

#include <string>

namespace llmd {
namespace {

class FlowControlConfig : public ConfigFixture {
 protected:
  FlowControlConfig() : ConfigFixture("featureGates: [flowControl]\n") {}
};

TEST_F(FlowControlConfig, NeedsNothingButTheGate) {
  const auto loaded = load("plugins: [{type: queue-scorer}]");
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_TRUE(loaded->pipeline->warnings.empty());
  const auto& flow = loaded->document.flow_control;
  EXPECT_EQ(flow.default_request_ttl, std::chrono::seconds(60));
  EXPECT_EQ(flow.no_endpoint_request_ttl, std::chrono::seconds(60));
  ASSERT_EQ(flow.bands.size(), 1u);
  EXPECT_EQ(flow.bands[0].bytes_max, 1'000'000'000);
  EXPECT_EQ(flow.bands[0].requests_max, 5000);
  EXPECT_EQ(flow.bands[0].fairness_policy->name, "global-strict-fairness-policy");
  EXPECT_EQ(flow.bands[0].ordering_policy->name, "fcfs-ordering-policy");
  EXPECT_EQ(flow.usage_limit_policy->name, "static-usage-limit-policy");
}

TEST_F(FlowControlConfig, TakesTheTimeWithoutEndpointsFromTheOther) {
  const auto loaded = load("flowControl: {defaultRequestTTL: 30s}");
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->document.flow_control.no_endpoint_request_ttl, std::chrono::seconds(30));
}

TEST_F(FlowControlConfig, TakesZeroAsNoLimitForAllAndAsTheDefaultForABand) {
  const auto loaded =
      load("flowControl: {maxBytes: 0, priorityBands: [{priority: 3, maxRequests: 0}]}");
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->document.flow_control.bytes_max, 0);
  EXPECT_EQ(loaded->document.flow_control.bands[0].requests_max, 5000);
}

TEST_F(FlowControlConfig, SaysWhatIsWrong) {
  const struct {
    std::string_view body, error;
  } kCases[] = {
      {"flowControl: {maxByte: 1}",
       "f.yaml:4: flowControl: unknown field 'maxByte' (did you mean 'maxBytes'?)"},
      {"flowControl: {priorityBands: [{priority: 1}, {priority: 1}]}",
       "f.yaml:4: flowControl.priorityBands[1]: duplicate priority level 1"},
      {"flowControl: {noEndpointRequestTTL: -1s}",
       "f.yaml:4: flowControl.noEndpointRequestTTL: must not be negative, not -1s"},
      {"flowControl: {priorityBands: [{orderingPolicyRef: fcfs-orderin-policy}]}",
       "f.yaml:4: flowControl: orderingPolicyRef: no plugin is named 'fcfs-orderin-policy' (did "
       "you mean 'fcfs-ordering-policy'?)"},
      {"plugins: [{type: edf-ordering-policy}]\n"
       "flowControl: {defaultPriorityBand: {fairnessPolicyRef: edf-ordering-policy}}",
       "f.yaml:5: pluginRef 'edf-ordering-policy' (edf-ordering-policy): is no fairness policy"},
      {"plugins: [{type: queue-scorer}]\nflowControl: {usageLimitPolicyPluginRef: queue-scorer}",
       "f.yaml:5: pluginRef 'queue-scorer' (queue-scorer): is no usage limit policy"},
      {"flowControl: {defaultNegativePriorityBand: {orderingPolicyRef: nothing-like-it}}",
       "f.yaml:4: flowControl: orderingPolicyRef: no plugin is named 'nothing-like-it'"},
  };
  for (const auto& c : kCases) EXPECT_EQ(error_of(c.body), c.error) << c.body;
}

constexpr std::string_view kFull = R"(plugins:
- {type: round-robin-fairness-policy}
- {type: slo-deadline-ordering-policy}
- {name: half, type: static-usage-limit-policy, parameters: {threshold: 0.5}}
flowControl:
  maxBytes: 4Gi
  maxTokens: 2M
  defaultRequestTTL: 30s
  noEndpointRequestTTL: 3m
  usageLimitPolicyPluginRef: half
  retryAfter: true
  refuseUnmeetableDeadlines: true
  requestTTLHeader: X-Wait-Ms
  defaultNegativePriorityBand: {maxRequests: "50"}
  priorityBands:
  - {priority: -10, fairnessPolicyRef: round-robin-fairness-policy, maxTokens: 100k}
  - {priority: 10, orderingPolicyRef: slo-deadline-ordering-policy}
)";

TEST_F(FlowControlConfig, IsShown) {
  const auto loaded = load(kFull);
  ASSERT_TRUE(loaded) << loaded.error().message;
  const auto text = config::to_text(*loaded);
  EXPECT_NE(text.find(R"(flow control
  waits        30s; without endpoints 3m
  all bands    any requests, 4294967296 bytes, 2000000 tokens
  usage limit  half
  band 10      global-strict-fairness-policy, slo-deadline-ordering-policy; 5000 requests, 1000000000 bytes, any tokens
  band 0       global-strict-fairness-policy, fcfs-ordering-policy; 5000 requests, 1000000000 bytes, any tokens
  band -10     round-robin-fairness-policy, fcfs-ordering-policy; 5000 requests, 1000000000 bytes, 100000 tokens
  band other   global-strict-fairness-policy, fcfs-ordering-policy; 5000 requests, 1000000000 bytes, any tokens
  band < 0     global-strict-fairness-policy, fcfs-ordering-policy; 50 requests, 1000000000 bytes, any tokens
)"),
            std::string::npos)
      << text;
}

TEST_F(FlowControlConfig, DumpsToTheSame) {
  const auto loaded = load(kFull);
  ASSERT_TRUE(loaded) << loaded.error().message;
  const auto yaml = config::to_yaml(*loaded);
  const auto again = load_document(yaml);
  ASSERT_TRUE(again) << again.error().message << "\n" << yaml;
  const auto section = [](const std::string& text) {
    return text.substr(text.find("flowControl:\n"));
  };
  EXPECT_EQ(section(config::to_yaml(*again)), section(yaml));
}

TEST_F(FlowControlConfig, WarnsOfPoliciesThatNobodyUses) {
  const auto loaded = load("plugins: [{type: edf-ordering-policy}, {type: queue-scorer}]");
  ASSERT_TRUE(loaded) << loaded.error().message;
  ASSERT_EQ(loaded->pipeline->warnings.size(), 1u);
  EXPECT_EQ(loaded->pipeline->warnings[0],
            "f.yaml:4: plugin 'edf-ordering-policy' (edf-ordering-policy): is not used: "
            "flowControl does not refer to it");
}

TEST_F(FlowControlConfig, UsesTheFlowControlOfTheProcess) {
  fleet::Fleet fleet;
  flow::Controller controller(clock_, metrics_, "pool");
  state_.get<flow::ControllerSlot>(flow::ControllerSlot::kName, [&] {
    return new flow::ControllerSlot{[&]() -> flow::Controller& { return controller; }};
  });
  const auto loaded = load("flowControl: {priorityBands: [{priority: 4}]}");
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(controller.gate().find(4), nullptr);  // a load changes nothing
  loaded->pipeline->admission->start(loaded->pipeline);
  EXPECT_NE(controller.gate().find(4), nullptr);
  controller.retire();
}

constexpr std::string_view kByLedger =
    "plugins: [{type: concurrency-detector}, {type: queue-scorer}]\nflowControl: "
    "{saturationDetector: {pluginRef: concurrency-detector}, enableEviction: ";

TEST_F(FlowControlConfig, FollowsRunningRequestsThatMayHaveToGiveWay) {
  const auto follows = [&](const std::string& enabled) {
    const auto loaded = load(std::string(kByLedger) + enabled + "}");
    EXPECT_TRUE(loaded) << loaded.error().message;
    EXPECT_TRUE(loaded->pipeline->warnings.empty());
    return loaded->pipeline->pre_request.back().plugin->name() == "eviction" &&
           loaded->pipeline->response.back().plugin->name() == "eviction";
  };
  EXPECT_TRUE(follows("true"));
  EXPECT_FALSE(follows("false"));
}

TEST_F(FlowControlConfig, WarnsOfEvictionByOldMetrics) {
  const auto loaded = load("plugins: [{type: queue-scorer}]\nflowControl: {enableEviction: true}");
  ASSERT_TRUE(loaded) << loaded.error().message;
  ASSERT_EQ(loaded->pipeline->warnings.size(), 1u);
  EXPECT_EQ(loaded->pipeline->warnings[0],
            "f.yaml: flowControl.enableEviction: 'utilization-detector' learns of freed places "
            "with the next scrape only, so more requests than needed give way; use "
            "concurrency-detector");
}

TEST_F(FlowControlConfig, WarnsOfALimitThatNoFilterKeeps) {
  const auto loaded = load(std::string(kByLedger) +
                           "false}\nschedulingProfiles: [{name: default, plugins: [{pluginRef: "
                           "queue-scorer}]}]");
  ASSERT_TRUE(loaded) << loaded.error().message;
  ASSERT_EQ(loaded->pipeline->warnings.size(), 1u);
  EXPECT_TRUE(loaded->pipeline->warnings[0].contains("is in no scheduling profile"));
}

TEST_F(FlowControlConfig, LoadsTheExample) {
  environment_.allow_experimental = true;
  const std::string path = std::string(LLMD_SOURCE_DIR) + "/deploy/examples/flow-control.yaml";
  const auto text = config::read_document(path);
  ASSERT_TRUE(text) << text.error().message;
  const auto loaded = load_document(*text, path);
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_TRUE(loaded->pipeline->warnings.empty()) << loaded->pipeline->warnings[0];
  EXPECT_EQ(loaded->document.flow_control.bands.size(), 2u);
}

}  // namespace
}  // namespace llmd
