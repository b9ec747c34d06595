#include "schedule/testing.h"

#include <gtest/gtest.h>

namespace llmd::plugins {
const plugin::Descriptor& lora_affinity_scorer();

namespace {

using schedule::Scorer;
using schedule::testing::Harness;
using Names = std::vector<std::string>;

double score(const Names& running, const Names& waiting, int64_t most) {
  Harness harness(1);
  harness.context.target_model = "a";
  harness.metrics_of(0).max_active_models = most;
  harness.endpoints[0]->details.store(
      std::make_shared<const fleet::EngineDetails>(fleet::EngineDetails{
          .running_adapters = running, .waiting_adapters = waiting, .custom = {}}));
  return harness.scores(harness.make<Scorer>(lora_affinity_scorer())).at(0);
}

TEST(LoraAffinityScorer, RatesByWhereTheAdapterIs) {
  EXPECT_EQ(score({"a"}, {}, 2), 1);
  EXPECT_EQ(score({"b"}, {}, 2), .8);
  EXPECT_EQ(score({"b", "c"}, {}, 2), 0);
  EXPECT_EQ(score({"b"}, {"a"}, 2), .6);
  EXPECT_EQ(score({"b"}, {"a"}, 3), .8);
}

TEST(LoraAffinityScorer, FindsNoRoomWhereAdaptersAreNotReported) {
  EXPECT_EQ(score({}, {}, 0), 0);
}

TEST(LoraAffinityScorer, IgnoresParameters) {
  Harness harness(1);
  EXPECT_TRUE(harness.try_make(lora_affinity_scorer(), "{x: 1}"));
}

}  // namespace
}  // namespace llmd::plugins
