#include "schedule/attributes.h"
#include "schedule/interfaces.h"
#include "schedule/testing.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace llmd::plugins {
const plugin::Descriptor& inflight_load_producer();
const plugin::Descriptor& p2p_source_producer();
const plugin::Descriptor& prefix_cache_scorer();
}  // namespace llmd::plugins

namespace llmd::regress {
namespace {

using schedule::PrefixMatch;

/// llm-d-router#1047, #2321: the match weighted by tier, which is for ranking, was taken for the
/// number of cached blocks, from which the work follows that an endpoint is charged; #2400: who
/// gives blocks to others was chosen by what its GPU has, though they come from its host memory.
class Case20 : public ::testing::Test {
 protected:
  static constexpr uint32_t kBlocks = 10, kBlockTokens = 64;

  /// What one endpoint with `match` is charged for a request of kBlocks blocks.
  int64_t uncached_of(const PrefixMatch& match) {
    const auto& producer = harness_.make<schedule::Producer>(plugins::inflight_load_producer());
    const auto column = harness_.wiring.consumes<schedule::UncachedTokens>(
        "inflight-load-producer", schedule::Need::kOptional);
    ask(match);
    EXPECT_TRUE(producer.produce(harness_.context));
    return harness_.context.read(column)[0].tokens;
  }
  double score_of(const PrefixMatch& match) {
    const auto& scorer = harness_.make<schedule::Scorer>(plugins::prefix_cache_scorer());
    ask(match);
    return harness_.scores(scorer)[0];
  }

 private:
  void ask(const PrefixMatch& match) {
    tokens_.resize(size_t{kBlocks} * kBlockTokens);
    std::iota(tokens_.begin(), tokens_.end(), 1u);
    prompt_.token_ids = tokens_;
    view_.prompts = {&prompt_, 1};
    harness_.fresh_request();
    harness_.context.request = &view_;
    harness_.provide<PrefixMatch>("approx-prefix-cache-producer")[0] = match;
  }

  schedule::testing::Harness harness_{1};
  std::vector<uint32_t> tokens_;
  request::Prompt prompt_;
  request::RequestView view_;
};

TEST_F(Case20, AWeightedMatchRanksAndTheBlocksCount) {
  const PrefixMatch all_in_host_memory{.match_blocks = 8,
                                       .total_blocks = kBlocks,
                                       .block_tokens = kBlockTokens,
                                       .cached_blocks = 10};
  EXPECT_DOUBLE_EQ(score_of(all_in_host_memory), 0.8);
  EXPECT_EQ(uncached_of(all_in_host_memory), 0);
}

TEST_F(Case20, OneBlockInHostMemoryIsOneCachedBlock) {
  const PrefixMatch one{.match_blocks = 0.8,
                        .total_blocks = kBlocks,
                        .block_tokens = kBlockTokens,
                        .cached_blocks = 1};
  EXPECT_EQ(uncached_of(one), 9 * kBlockTokens);
}

TEST(Case20Pull, TheSourceIsWhoHasMostInHostMemory) {
  schedule::testing::Harness harness(3);
  const auto& producer = harness.make<schedule::Producer>(plugins::p2p_source_producer());
  const schedule::TierBlocks::Tier gpu[] = {{"gpu", 10}}, cpu[] = {{"cpu", 3}};
  const schedule::CachedBlocks in_gpu{.by_tier = {gpu}}, in_cpu{.by_tier = {cpu}};
  const auto matches = harness.provide<PrefixMatch>("approx-prefix-cache-producer");
  matches[0] = {.block_tokens = 64, .cached_blocks = 10, .cached = &in_gpu};
  matches[1] = {.block_tokens = 64, .cached_blocks = 3, .cached = &in_cpu};
  ASSERT_TRUE(producer.produce(harness.context));
  harness.choose(0, 2);
  ASSERT_TRUE(dynamic_cast<const schedule::PreRequest&>(producer).pre_request(harness.context));
  const auto headers = harness.context.request_headers.fields();
  ASSERT_EQ(headers.size(), 1u);
  EXPECT_EQ(headers[0].value, "10.0.0.1:8000");
}

}  // namespace
}  // namespace llmd::regress
