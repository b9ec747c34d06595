#include "handlers/testing.h"

#include <gtest/gtest.h>

namespace llmd::plugins {
const plugin::Descriptor& data_parallel_profile_handler();
const plugin::Descriptor& header_profile_handler();

namespace {

using schedule::ProfileHandler;
using schedule::testing::Harness;
using testing::Rounds;
using Names = std::vector<std::string>;

TEST(DataParallelProfileHandler, SendsThroughThePrimaryPort) {
  Harness harness(3);
  auto& handler = harness.make<ProfileHandler>(data_parallel_profile_handler());
  Rounds rounds(harness, handler, {"default"});
  EXPECT_EQ(rounds.run({{"default", {2, 0}}}), Names{"default"});
  EXPECT_EQ(rounds.finish(), "default");
  EXPECT_EQ(harness.context.forward_port, 8000);
  EXPECT_EQ(rounds.header("x-data-parallel-host-port"), "10.0.0.2:8000");
}

TEST(DataParallelProfileHandler, FailsWithItsProfile) {
  Harness harness(1);
  auto& handler = harness.make<ProfileHandler>(data_parallel_profile_handler(), "{primaryPort: 1}");
  Rounds rounds(harness, handler, {"default"});
  rounds.run({{"default", {}}});
  EXPECT_EQ(rounds.finish(), "the scheduling profile found no endpoint");
}

TEST(DataParallelProfileHandler, RefusesPortZeroAndSeveralProfiles) {
  Harness harness(1);
  EXPECT_FALSE(harness.try_make(data_parallel_profile_handler(), "{primaryPort: 0}"));
  EXPECT_FALSE(harness.try_make(data_parallel_profile_handler(), "{primaryPort: 65536}"));
  auto& handler = harness.make<ProfileHandler>(data_parallel_profile_handler());
  const Names two = {"a", "b"};
  EXPECT_FALSE(handler.bind(two));
}

/// The profiles that run for a request with this value of the header.
Names run_for(std::string_view value, const Names& profiles, std::string_view parameters = "",
              std::string_view header = "EPP-Profile") {
  Harness harness(1);
  const HeaderField field{header, value};
  harness.context.headers = {{&field, value.empty() ? 0u : 1u}};
  auto& handler = harness.make<ProfileHandler>(header_profile_handler(), parameters);
  Rounds rounds(harness, handler, profiles);
  Rounds::Picks picks;
  for (const auto& name : profiles) picks[name] = {0};
  auto ran = rounds.run(picks);
  const auto end = rounds.finish();
  if (!ran.empty()) {
    EXPECT_EQ(end, ran[0]);
  }
  return ran;
}

TEST(HeaderProfileHandler, RunsTheNamedProfile) {
  const Names three = {"encode", "prefill", "decode"};
  EXPECT_EQ(run_for("prefill", three), Names{"prefill"});
  EXPECT_EQ(run_for(" encode ", three), Names{"encode"});
  EXPECT_EQ(run_for("", three), Names{"decode"});
  EXPECT_EQ(run_for("", three, "{defaultProfile: ' prefill '}"), Names{"prefill"});
  EXPECT_EQ(run_for("encode", three, "{headerName: ' X-Stage '}", "x-stage"), Names{"encode"});
}

TEST(HeaderProfileHandler, RunsNothingForAnUnknownName) {
  EXPECT_EQ(run_for("Prefill", {"prefill", "decode"}), Names{});
}

TEST(HeaderProfileHandler, RunsTheOnlyProfileWhateverIsNamed) {
  EXPECT_EQ(run_for("x", {"main"}), Names{"main"});
}

TEST(HeaderProfileHandler, IsExperimental) {
  EXPECT_EQ(header_profile_handler().stability, plugin::Stability::kAlpha);
}

}  // namespace
}  // namespace llmd::plugins
