#include "client_headers.h"

#include <gtest/gtest.h>

namespace llmd::frontend {
namespace {

TEST(ClientHeaders, RoutingBelongsToThePicker) {
  for (const auto* name :
       {"x-gateway-destination-endpoint", "X-Gateway-Destination-Endpoint-Subset",
        "x-gateway-destination-endpoint-served", "X-PREFILLER-HOST-PORT", "x-encoder-hosts-ports",
        "x-data-parallel-host-port", "x-kv-cache-source-host-port"})
    EXPECT_TRUE(is_routing(name)) << name;
  for (const auto* name : {"", "x-", "host", "x-request-id", "x-llm-d-inference-objective",
                           "x-gateway-destination-endpoint-other"})
    EXPECT_FALSE(is_routing(name)) << name;
}

TEST(ClientHeaders, ControlsHaveTwoNamesEach) {
  EXPECT_EQ(control_of("X-LLM-D-Inference-Objective"), Control::kObjective);
  EXPECT_EQ(control_of("x-gateway-inference-objective"), Control::kObjective);
  EXPECT_EQ(control_of("x-llm-d-inference-fairness-id"), Control::kFairness);
  EXPECT_EQ(control_of("x-gateway-inference-fairness-id"), Control::kFairness);
  EXPECT_EQ(control_of("x-llm-d-model-name-rewrite"), Control::kRewrite);
  EXPECT_EQ(control_of("x-gateway-model-name-rewrite"), Control::kRewrite);
  for (const auto* name : {"", "x-prefiller-host-port", "x-llm-d-slo-ttft-ms", "content-type"})
    EXPECT_EQ(control_of(name), Control::kNone) << name;
}

TEST(ClientHeaders, CredentialsAreTwo) {
  EXPECT_TRUE(is_credential("Authorization"));
  EXPECT_TRUE(is_credential("X-API-Key"));
  EXPECT_FALSE(is_credential("proxy-authorization"));
  EXPECT_FALSE(is_credential("x-api-kex"));
}

}  // namespace
}  // namespace llmd::frontend
