#include "producers/p2p_source.h"
#include "schedule/attributes.h"
#include "schedule/testing.h"

#include <gtest/gtest.h>

namespace llmd::plugins {
const plugin::Descriptor& p2p_source_producer();

namespace {

using schedule::PrefixMatch;
using schedule::PreRequest;
using schedule::Producer;
using schedule::testing::Harness;

TEST(Fnv1a32, MatchesTheVectors) {
  const auto scaled = [](std::string_view id) { return fnv1a_32(id) * 0x1p-32; };
  EXPECT_NEAR(scaled(""), .5043428998906165, 1e-15);
  EXPECT_NEAR(scaled("a"), .8908105595037341, 1e-15);
  EXPECT_NEAR(scaled("req-1"), .8558053413871676, 1e-15);
  EXPECT_NEAR(scaled("req-2"), .8440863098949194, 1e-15);
  EXPECT_NEAR(scaled("req-3"), .8479926537256688, 1e-15);
}

TEST(UnitOf, SpreadsIdsThatAreAlike) {
  int low = 0;
  for (int i = 0; i < 1000; ++i) {
    const double unit = unit_of("req-" + std::to_string(i));
    ASSERT_GE(unit, 0);
    ASSERT_LT(unit, 1);
    low += unit < .5;
  }
  EXPECT_NEAR(low, 500, 79);  // five standard deviations
}

class P2pSource : public ::testing::Test {
 protected:
  /// Cached blocks of 64 by endpoint.
  void request(std::initializer_list<int64_t> cached, std::string_view id = "r") {
    harness_.fresh_request();
    harness_.context.request_id = id;
    const auto matches = harness_.provide<PrefixMatch>("approx-prefix-cache-producer");
    std::ranges::transform(cached, matches.begin(), [](int64_t blocks) {
      return PrefixMatch{.block_tokens = 64, .cached_blocks = blocks};
    });
    EXPECT_TRUE(producer_->produce(harness_.context));
  }
  void configure(std::string_view parameters = "") {
    producer_ = &harness_.make<Producer>(p2p_source_producer(), parameters);
  }
  std::string source_for(uint32_t target) {
    harness_.choose(0, target);
    return source();
  }
  std::string source() {
    EXPECT_TRUE(dynamic_cast<const PreRequest*>(producer_)->pre_request(harness_.context));
    const auto fields = harness_.context.request_headers.fields();
    return fields.empty() ? "" : std::string(fields[0].value);
  }

  Harness harness_{3};
  const Producer* producer_ = nullptr;
};

TEST_F(P2pSource, NamesTheEndpointThatHasMost) {
  configure();
  request({0, 10, 3});
  EXPECT_EQ(source_for(0), "10.0.0.1:8000");
}

TEST_F(P2pSource, NamesNobodyWhereThereIsNothingToFetch) {
  configure();
  request({0, 0, 0});
  EXPECT_EQ(source_for(0), "");
  request({0, 10, 3});
  EXPECT_EQ(source_for(1), "");  // it has it itself
}

/// Of what the precise cache tells, host memory alone is for others.
TEST_F(P2pSource, CountsWhatIsInHostMemoryWhereTiersAreKnown) {
  configure("{minCachedTokenDelta: 128}");
  const schedule::TierBlocks::Tier in_gpu[] = {{"gpu", 10}}, in_both[] = {{"cpu", 4}, {"gpu", 1}};
  const schedule::CachedBlocks much{.by_tier = {in_gpu}}, some{.by_tier = {in_both}}, none;
  request({10, 4, 2});
  const auto matches = harness_.provide<PrefixMatch>("approx-prefix-cache-producer");
  matches[0] = {.block_tokens = 64, .cached_blocks = 10, .cached = &much};
  matches[1] = {.block_tokens = 64, .cached_blocks = 4, .cached = &some};
  matches[2] = {.block_tokens = 64, .cached_blocks = 2, .cached = &none};
  EXPECT_TRUE(producer_->produce(harness_.context));
  EXPECT_EQ(source_for(2), "10.0.0.1:8000");
  matches[2].cached_blocks = 3;  // in whatever tier: it need not fetch them
  EXPECT_EQ(source_for(2), "10.0.0.1:8000") << "of the first try";
  harness_.context.request_headers.clear();
  EXPECT_EQ(source_for(2), "");
}

TEST_F(P2pSource, AsksForAGain) {
  configure("{minCachedTokenDelta: 128}");
  request({9, 10, 0});
  EXPECT_EQ(source_for(2).empty(), false);
  request({0, 10, 9});
  EXPECT_EQ(source_for(2), "");
  request({0, 10, 8});
  EXPECT_EQ(source_for(2), "10.0.0.1:8000");
}

TEST_F(P2pSource, AsksForThePrefillEndpoint) {
  configure();
  request({0, 10, 0});
  harness_.choose(1, 1, false);
  harness_.choose(0, 0);
  EXPECT_EQ(source(), "");
}

TEST_F(P2pSource, SpreadsOverThoseThatHaveAboutAsMuch) {
  configure();
  int first = 0;
  for (int i = 0; i < 1000; ++i) {
    request({10, 9, 0}, "id-" + std::to_string(i));
    first += source_for(2) == "10.0.0.0:8000";
  }
  EXPECT_NEAR(first, 500, 79);
}

TEST_F(P2pSource, RefusesAGainOfNothing) {
  EXPECT_FALSE(harness_.try_make(p2p_source_producer(), "{minCachedTokenDelta: 0}"));
}

}  // namespace
}  // namespace llmd::plugins
