#include "schedule/testing.h"

#include <gtest/gtest.h>

namespace llmd::plugins {
const plugin::Descriptor& header_based_testing_filter();

namespace {

using schedule::testing::Harness;
using Kept = std::vector<uint32_t>;

/// Endpoint i is at 10.0.0.i.
Kept kept(std::string_view value) {
  Harness harness(4);
  const HeaderField field{"Test-EPP-Endpoint-Selection", value};
  harness.context.headers = {{&field, 1}};
  return harness.filtered(harness.make<schedule::Filter>(header_based_testing_filter()));
}

TEST(HeaderBasedTestingFilter, KeepsTheNamedEndpointsInOrder) {
  EXPECT_EQ(kept("10.0.0.2"), Kept{2});
  EXPECT_EQ(kept("10.0.0.3:9000, 10.0.0.1"), (Kept{3, 1}));
  EXPECT_EQ(kept("[10.0.0.3]:1,[10.0.0.2]"), (Kept{3, 2}));
}

TEST(HeaderBasedTestingFilter, KeepsEachEndpointOnce) {
  EXPECT_EQ(kept("10.0.0.2,10.0.0.1,10.0.0.2:80"), (Kept{2, 1}));
}

TEST(HeaderBasedTestingFilter, KeepsNothingElse) {
  for (const auto* value : {"", " ", ",", "10.0.0.9", "10.0.0", "["})
    EXPECT_EQ(kept(value), Kept{});
}

TEST(HeaderBasedTestingFilter, ReadsIpv6) {
  Harness harness(1);
  harness.endpoints[0] = std::make_shared<fleet::Endpoint>(
      fleet::EndpointSpec{.name = "six", .address = "fd00::1", .port = 80}, 0, 1);
  harness.fresh_request();
  const auto& filter = harness.make<schedule::Filter>(header_based_testing_filter());
  HeaderField field{"test-epp-endpoint-selection", ""};
  harness.context.headers = {{&field, 1}};
  for (const auto* value : {"fd00::1", "[fd00::1]", "[fd00::1]:80"}) {
    field.value = value;
    EXPECT_EQ(harness.filtered(filter), Kept{0}) << value;
  }
}

}  // namespace
}  // namespace llmd::plugins
