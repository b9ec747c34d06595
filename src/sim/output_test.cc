#include "sim/output.h"

#include "sim/tokenizer.h"

#include <gtest/gtest.h>

namespace llmd::sim {
namespace {

using Buckets = std::array<std::pair<int64_t, int64_t>, 5>;

TEST(LengthBuckets, MatchGoldenEdges) {
  EXPECT_EQ(length_buckets(10), (Buckets{{{1, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}}}));
  EXPECT_EQ(length_buckets(60), (Buckets{{{1, 11}, {12, 23}, {24, 35}, {36, 47}, {48, 59}}}));
  EXPECT_EQ(length_buckets(101), (Buckets{{{1, 20}, {21, 40}, {41, 60}, {61, 80}, {81, 100}}}));
  EXPECT_EQ(length_buckets(120), (Buckets{{{1, 20}, {21, 40}, {41, 60}, {61, 100}, {101, 119}}}));
  EXPECT_EQ(length_buckets(200), (Buckets{{{1, 20}, {21, 40}, {41, 60}, {61, 180}, {181, 199}}}));
}

TEST(LengthBuckets, CoverEveryLengthBelowTheMaximumOnce) {
  for (int64_t max = 7; max < 300; ++max) {
    int64_t expected = 1;
    for (const auto& [low, high] : length_buckets(max)) {
      EXPECT_EQ(low, expected) << max;
      EXPECT_LE(low, high) << max;
      expected = high + 1;
    }
    EXPECT_EQ(expected, max);
  }
}

TEST(DrawLength, FollowsBucketProbabilities) {
  Draws draws(3, 0);
  int exact = 0, first = 0;
  constexpr int kRounds = 20000;
  for (int i = 0; i < kRounds; ++i) {
    const uint32_t n = draw_length(200, false, 1000, draws);
    ASSERT_GE(n, 1u);
    ASSERT_LE(n, 200u);
    exact += n == 200;
    first += n <= 20;
  }
  EXPECT_NEAR(exact / double(kRounds), 0.15, 0.02);
  EXPECT_NEAR(first / double(kRounds), 0.2, 0.02);
}

TEST(DrawLength, RespectsItsLimits) {
  Draws draws(3, 0);
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(draw_length(77, true, 1000, draws), 77u);
    EXPECT_LE(draw_length(4, false, 1000, draws), 4u);
    EXPECT_LE(draw_length(std::nullopt, false, 10, draws), 10u);
    EXPECT_LE(draw_length(std::nullopt, false, 30, draws), 30u);
    EXPECT_GE(draw_length(std::nullopt, false, 30, draws), 1u);
  }
}

std::string joined(Output output) {
  std::string text;
  for (uint32_t i = 0; i < output.size(); ++i) text += output.next();
  return text;
}

TEST(Output, EchoesTokens) {
  Output out = Output::echo("Hello world");
  ASSERT_EQ(out.size(), 2u);
  EXPECT_EQ(out.next(), "Hello ");
  EXPECT_EQ(out.next(), "world");
  EXPECT_EQ(joined(Output::echo("1,2,3")), "1,2,3");
  EXPECT_EQ(Output::echo("").size(), 0u);
}

TEST(Output, RandomTextHasTheCountedTokensAndRepeats) {
  const std::string text = joined(Output::random(50, Draws(1, 2)));
  std::vector<uint32_t> ids;
  tokenize(text, ids);
  EXPECT_EQ(ids.size(), 50u);
  EXPECT_EQ(text, joined(Output::random(50, Draws(1, 2))));
  EXPECT_NE(text, joined(Output::random(50, Draws(1, 3))));
}

}  // namespace
}  // namespace llmd::sim
