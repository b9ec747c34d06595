#include "schedule/testing.h"

#include <gtest/gtest.h>

namespace llmd::plugins {
const plugin::Descriptor& single_profile_handler();

namespace {

using schedule::ProfileHandler;
using schedule::testing::Harness;

TEST(SingleProfileHandler, BindsToExactlyOneProfile) {
  Harness harness(1);
  auto& handler = harness.make<ProfileHandler>(single_profile_handler());
  EXPECT_TRUE(handler.bind(std::vector<std::string>{"default"}));
  EXPECT_FALSE(handler.bind({}));
  const auto two = handler.bind(std::vector<std::string>{"a", "b"});
  ASSERT_FALSE(two);
  EXPECT_EQ(two.error().message, "runs exactly one profile; 2 are configured");
}

TEST(SingleProfileHandler, RunsTheProfileOnceAndMakesItPrimary) {
  Harness harness(2);
  const auto& handler = harness.make<ProfileHandler>(single_profile_handler());
  uint16_t run[1] = {7};
  ASSERT_EQ(handler.next(harness.context, run), 1u);
  EXPECT_EQ(run[0], 0);
  harness.choose(0, 1, false);
  EXPECT_EQ(handler.next(harness.context, run), 0u);
  ASSERT_TRUE(handler.finish(harness.context));
  EXPECT_EQ(harness.context.primary, 0);
}

TEST(SingleProfileHandler, LeavesTheExplanationOfAFailedProfileToTheScheduler) {
  Harness harness(2);
  const auto& handler = harness.make<ProfileHandler>(single_profile_handler());
  harness.context.results[0] = {.ran = true, .failed = true};
  const auto status = handler.finish(harness.context);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kUnknown);
}

TEST(SingleProfileHandler, IgnoresParameters) {
  Harness harness(1);
  EXPECT_TRUE(harness.try_make(single_profile_handler(), "{x: 1}"));
}

}  // namespace
}  // namespace llmd::plugins
