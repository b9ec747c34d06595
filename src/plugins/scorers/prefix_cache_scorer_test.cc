#include "schedule/attributes.h"
#include "schedule/testing.h"

#include <gtest/gtest.h>

namespace llmd::plugins {
const plugin::Descriptor& prefix_cache_scorer();

namespace {

using schedule::PrefixMatch;
using schedule::Scorer;
using schedule::testing::Harness;

constexpr auto kProducer = "approx-prefix-cache-producer";

double score(double match, int64_t total, int64_t block, std::string_view parameters = "") {
  Harness harness(1);
  harness.provide<PrefixMatch>(kProducer)[0] = {
      .match_blocks = match, .total_blocks = total, .block_tokens = block};
  return harness.scores(harness.make<Scorer>(prefix_cache_scorer(), parameters))[0];
}

TEST(PrefixCacheScorer, IsTheMatchedFractionByDefault) {
  EXPECT_EQ(score(3, 4, 64), .75);
  EXPECT_NEAR(score(2, 3, 64), .6667, 5e-5);
  EXPECT_EQ(score(0, 3, 64), 0);
}

TEST(PrefixCacheScorer, BlendsInTheMatchedLength) {
  EXPECT_DOUBLE_EQ(score(3, 4, 64, "{matchLengthWeight: 0.5}"), .375274658203125);
  EXPECT_DOUBLE_EQ(score(128, 256, 64, "{matchLengthWeight: 0.5}"), .75);
  EXPECT_DOUBLE_EQ(score(100, 100, 64, "{matchLengthWeight: 0.3}"), .88310546875);
}

TEST(PrefixCacheScorer, HasNoLengthTermWithoutABlockSize) {
  EXPECT_DOUBLE_EQ(score(4, 4, 0, "{matchLengthWeight: 0.25}"), .75);
}

TEST(PrefixCacheScorer, IsZeroWithoutInformation) {
  EXPECT_EQ(score(0, 0, 64), 0);
  Harness harness(2);
  EXPECT_EQ(harness.scores(harness.make<Scorer>(prefix_cache_scorer())),
            (std::vector<double>{0, 0}));
}

TEST(PrefixCacheScorer, RequiresTheNamedProducer) {
  Harness harness(1);
  harness.make<Scorer>(prefix_cache_scorer(), "{prefixMatchInfoProducerName: mine}");
  const auto& edge = harness.wiring.edges().at(0);
  EXPECT_EQ(edge.key, "PrefixCacheMatchInfoDataKey/mine");
  EXPECT_EQ(edge.kind, schedule::Wiring::Edge::Kind::kRequires);
}

TEST(PrefixCacheScorer, ChecksItsParameters) {
  Harness harness(1);
  const auto& descriptor = prefix_cache_scorer();
  EXPECT_FALSE(harness.try_make(descriptor, "{matchLengthWeight: 1.1}"));
  EXPECT_FALSE(harness.try_make(descriptor, "{matchLengthWeight: -0.1}"));
  EXPECT_TRUE(harness.try_make(descriptor, "{matchLengthScaleTokens: 0}"));
  const auto made =
      harness.try_make(descriptor, "{matchLengthWeight: 0.5, matchLengthScaleTokens: 0}");
  ASSERT_FALSE(made);
  EXPECT_NE(made.error().message.find("matchLengthScaleTokens"), std::string::npos);
}

}  // namespace
}  // namespace llmd::plugins
