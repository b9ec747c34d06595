#include "schedule/attributes.h"
#include "schedule/testing.h"

#include <gtest/gtest.h>

namespace llmd::schedule {
namespace {

TEST(Wiring, OneColumnPerKey) {
  testing::Harness harness(1);
  auto loads = harness.provide<InFlightLoad>("a");
  auto others = harness.provide<InFlightLoad>("b");
  loads[0].tokens = 7;
  others[0].tokens = 9;
  const auto read = harness.wiring.consumes<InFlightLoad>("a", Need::kOptional);
  EXPECT_EQ(harness.context.read(read)[0].tokens, 7);
  EXPECT_EQ(harness.wiring.columns(), 2u);
  EXPECT_EQ(harness.wiring.edges().back().key, "InFlightLoadDataKey/a");
}

TEST(Wiring, UnwrittenColumnReadsEmpty) {
  testing::Harness harness(1);
  harness.provide<InFlightLoad>("a");
  const auto read = harness.wiring.consumes<PrefixMatch>("a", Need::kOptional);
  EXPECT_TRUE(harness.context.read(read).empty());
}

}  // namespace
}  // namespace llmd::schedule
