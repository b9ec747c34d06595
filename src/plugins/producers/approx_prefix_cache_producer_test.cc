#include "testing.h"

#include "schedule/attributes.h"
#include "schedule/moved_hook.h"

#include <gtest/gtest.h>

namespace llmd::plugins {

const plugin::Descriptor& approx_prefix_cache_producer();

namespace {

using schedule::PrefixMatch;
using schedule::testing::Harness;
using testing::TokenRequest;

constexpr const char* kName = "approx-prefix-cache-producer";

class ApproxProducer : public ::testing::Test {
 protected:
  void configure(std::string_view parameters = "") {
    auto& made = harness_.make<schedule::Producer>(approx_prefix_cache_producer(), parameters);
    producer_ = &made;
    hook_ = dynamic_cast<const schedule::PreRequest*>(&made);
    matches_ = harness_.wiring.consumes<PrefixMatch>(kName, schedule::Need::kOptional);
  }
  std::span<const PrefixMatch> produce() {
    EXPECT_TRUE(producer_->produce(harness_.context));
    return harness_.context.read(matches_);
  }
  /// Decides for endpoint `target`.
  void send_to(uint32_t target) {
    harness_.choose(0, target);
    EXPECT_TRUE(hook_->pre_request(harness_.context));
  }
  std::vector<double> blocks_of(std::vector<uint32_t> prompt_tokens) {
    TokenRequest request(harness_, std::move(prompt_tokens));
    std::vector<double> blocks;
    for (const auto& match : produce()) blocks.push_back(match.match_blocks);
    return blocks;
  }
  void serve(std::vector<uint32_t> prompt_tokens, uint32_t target) {
    TokenRequest request(harness_, std::move(prompt_tokens));
    produce();
    send_to(target);
  }
  int64_t block_tokens(int64_t reported) {
    for (auto& m : harness_.metrics) m.cache_block_size = reported;
    TokenRequest request(harness_, {10});
    return produce()[0].block_tokens;
  }

  Harness harness_{2};
  const schedule::Producer* producer_ = nullptr;
  const schedule::PreRequest* hook_ = nullptr;
  schedule::Consumed<PrefixMatch> matches_;
};

TEST_F(ApproxProducer, MatchesWhatTheEndpointWasSent) {
  configure();
  serve({200}, 0);
  TokenRequest request(harness_, {130});
  const auto matches = produce();
  EXPECT_EQ(matches[0].match_blocks, 2);
  EXPECT_EQ(matches[0].cached_blocks, 2);
  EXPECT_EQ(matches[0].total_blocks, 3);
  EXPECT_EQ(matches[0].block_tokens, 64);
  EXPECT_EQ(matches[1].match_blocks, 0);
  EXPECT_EQ(matches[1].total_blocks, 3);
}

TEST_F(ApproxProducer, RemembersWhoServedInstead) {
  configure();
  TokenRequest request(harness_, {200});
  produce();
  send_to(0);
  harness_.choose(0, 1);
  dynamic_cast<const schedule::MovedHook*>(producer_)->on_moved(harness_.context);
  EXPECT_EQ(produce()[1].match_blocks, 4);
}

TEST_F(ApproxProducer, OtherModelsAndSaltsShareNothing) {
  configure();
  serve({200}, 0);
  TokenRequest other_model(harness_, {200}, "n");
  EXPECT_EQ(produce()[0].match_blocks, 0);
  TokenRequest salted(harness_, {200});
  salted.view.cache_salt = "s1";
  EXPECT_EQ(produce()[0].match_blocks, 0);
}

TEST_F(ApproxProducer, PromptsOfAnArrayCountEach) {
  configure();
  serve({128}, 0);
  {
    TokenRequest second(harness_, {64});
    for (auto& id : second.ids(0)) id += 1000;
    produce();
    send_to(1);
  }
  TokenRequest both(harness_, {128, 64});
  for (auto& id : both.ids(1)) id += 1000;
  const auto matches = produce();
  EXPECT_EQ(matches[0].match_blocks, 2);
  EXPECT_EQ(matches[1].match_blocks, 1);
  EXPECT_EQ(matches[0].total_blocks, 3);
}

TEST_F(ApproxProducer, BlockSizeFollowsMetricsAndIsNeverBelow64) {
  configure();
  EXPECT_EQ(block_tokens(0), 64);
  EXPECT_EQ(block_tokens(16), 64);
  EXPECT_EQ(block_tokens(128), 128);
}

TEST_F(ApproxProducer, BlockSizeOfTheParametersWithoutAutoTune) {
  configure("{autoTune: false, blockSizeTokens: 32}");
  EXPECT_EQ(block_tokens(128), 64);
}

TEST_F(ApproxProducer, DeprecatedBlockSizeFillsInForTheDefault) {
  configure("{autoTune: false, blockSize: 256}");
  EXPECT_EQ(block_tokens(0), 256);
}

TEST_F(ApproxProducer, TokenCapBelowABlockHashesNothing) {
  configure("{maxPrefixTokensToMatch: 32}");
  serve({200}, 0);
  TokenRequest request(harness_, {200});
  EXPECT_EQ(produce()[0].total_blocks, 0);
}

TEST_F(ApproxProducer, TokenCapWinsOverBlockCap) {
  configure("{maxPrefixTokensToMatch: 128, maxPrefixBlocksToMatch: 1}");
  TokenRequest request(harness_, {1000});
  EXPECT_EQ(produce()[0].total_blocks, 2);
}

TEST_F(ApproxProducer, BlockCapHoldsWithoutTokenCap) {
  configure("{maxPrefixTokensToMatch: 0, maxPrefixBlocksToMatch: 3}");
  TokenRequest request(harness_, {1000});
  EXPECT_EQ(produce()[0].total_blocks, 3);
}

TEST_F(ApproxProducer, CapacityIsTheEnginesCacheInOurBlocks) {
  configure();
  for (auto& m : harness_.metrics) {
    m.cache_block_size = 16;
    m.cache_num_blocks = 12;  // 192 tokens: three blocks of 64
  }
  serve({640}, 0);
  EXPECT_EQ(blocks_of({640}), (std::vector<double>{3, 0}));
}

TEST_F(ApproxProducer, CapacityOfTheParametersOtherwise) {
  configure("{autoTune: false, blockSizeTokens: 64, lruCapacityPerServer: 4}");
  for (auto& m : harness_.metrics) m.cache_num_blocks = 100;
  serve({640}, 0);
  EXPECT_EQ(blocks_of({640}), (std::vector<double>{4, 0}));
}

TEST_F(ApproxProducer, RemembersThePrefillTargetToo) {
  configure();
  TokenRequest request(harness_, {64});
  produce();
  harness_.choose(1, 1);  // profile "prefill"
  send_to(0);
  EXPECT_EQ(blocks_of({64}), (std::vector<double>{1, 1}));
}

TEST_F(ApproxProducer, ForgetsAnEndpointThatLeaves) {
  configure();
  serve({64}, 0);
  serve({64}, 1);
  harness_.leave(0);
  EXPECT_EQ(blocks_of({64}), (std::vector<double>{0, 1}));
}

TEST_F(ApproxProducer, AReloadedInstanceGoesOnWithTheIndex) {
  configure();
  serve({64}, 0);
  configure("{lruCapacityPerServer: 10}");
  EXPECT_EQ(blocks_of({64}), (std::vector<double>{1, 0}));
}

TEST_F(ApproxProducer, RequestWithoutBodyMatchesNothing) {
  configure();
  harness_.fresh_request();
  EXPECT_EQ(produce()[0].total_blocks, 0);
  send_to(0);
}

TEST_F(ApproxProducer, ShowsHitsAndSize) {
  configure();
  serve({200}, 0);
  serve({130}, 0);
  const std::string page = harness_.metric_registry().render();
  const std::string labels = std::string("{plugin_name=\"") + kName + "\",plugin_type=\"" + kName;
  EXPECT_NE(page.find("llm_d_epp_prefix_indexer_size" + labels + "\"} 5\n"), std::string::npos);
  EXPECT_NE(page.find("llm_d_epp_prefix_indexer_hit_bytes_sum" + labels + "\"} 512\n"),
            std::string::npos);
  EXPECT_NE(page.find("llm_d_epp_prefix_indexer_hit_ratio_count" + labels + "\"} 2\n"),
            std::string::npos);
  EXPECT_NE(page.find("inference_extension_prefix_indexer_size 5\n"), std::string::npos) << page;
}

TEST_F(ApproxProducer, DumpsBlocksOfEachEndpointMostFirst) {
  configure();
  EXPECT_EQ(producer_->dump_state(), R"({"pods":[],"totalPods":0,"maxPods":100})");
  for (size_t i = 0; i < 2; ++i) harness_.join(i);
  serve({64}, 0);
  serve({200}, 1);
  EXPECT_EQ(producer_->dump_state(),
            R"({"pods":[{"pod":"default/e1","blocks":4},{"pod":"default/e0","blocks":1}],)"
            R"("totalPods":2,"maxPods":100})");
  harness_.leave(1);
  EXPECT_EQ(producer_->dump_state(),
            R"({"pods":[{"pod":"default/e0","blocks":1}],"totalPods":1,"maxPods":100})");
}

TEST_F(ApproxProducer, DumpIsBounded) {
  Harness many{120};
  auto& made = many.make<schedule::Producer>(approx_prefix_cache_producer());
  TokenRequest request(many, {64});
  ASSERT_TRUE(made.produce(many.context));
  for (uint32_t i = 0; i < 120; ++i) {
    many.join(i);
    many.choose(0, i);
    ASSERT_TRUE(dynamic_cast<schedule::PreRequest&>(made).pre_request(many.context));
  }
  const std::string dump = made.dump_state();
  size_t listed = 0;
  for (size_t at = 0; (at = dump.find("\"pod\"", at)) != std::string::npos; ++at) ++listed;
  EXPECT_EQ(listed, 100u);
  EXPECT_NE(dump.find(R"("totalPods":120)"), std::string::npos) << dump;
}

TEST_F(ApproxProducer, ChecksItsParameters) {
  const auto refuses = [&](std::string_view parameters) {
    return !harness_.try_make(approx_prefix_cache_producer(), parameters);
  };
  EXPECT_TRUE(refuses("{autoTune: false, blockSizeTokens: 0}"));
  EXPECT_TRUE(refuses("{maxPrefixTokensToMatch: -1}"));
  EXPECT_TRUE(refuses("{maxPrefixTokens: 1}"));
  EXPECT_FALSE(refuses("{blockSizeTokens: 0, lruCapacityPerServer: -5}"));
}

}  // namespace
}  // namespace llmd::plugins
