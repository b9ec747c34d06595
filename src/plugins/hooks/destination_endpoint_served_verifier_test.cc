#include "schedule/testing.h"

#include <gtest/gtest.h>

namespace llmd::plugins {
const plugin::Descriptor& destination_endpoint_served_verifier();

namespace {

using schedule::testing::Harness;

std::string told(std::string_view served) {
  Harness harness(1);
  harness.context.served = served;
  harness.make<schedule::ResponseHook>(destination_endpoint_served_verifier())
      .on_response_head(harness.context);
  const auto fields = harness.context.response_headers.fields();
  return std::string(HeaderView(fields).get("x-conformance-test-served-endpoint"));
}

TEST(DestinationEndpointServedVerifier, TellsWhoServed) {
  EXPECT_EQ(told("10.0.0.7:8000"), "10.0.0.7:8000");
}

TEST(DestinationEndpointServedVerifier, TellsThatTheProxyDidNotSay) {
  EXPECT_TRUE(told("").starts_with("fail: "));
}

TEST(DestinationEndpointServedVerifier, IgnoresParameters) {
  EXPECT_TRUE(Harness(1).try_make(destination_endpoint_served_verifier(), "{x: 1}"));
}

}  // namespace
}  // namespace llmd::plugins
