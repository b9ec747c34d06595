#include "testing.h"

#include "kv_precise/precise_cache.h"
#include "schedule/attributes.h"
#include "schedule/moved_hook.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <map>

namespace llmd::plugins {

const plugin::Descriptor& precise_prefix_cache_producer();
const plugin::Descriptor& precise_prefix_cache_scorer();
const plugin::Descriptor& prefix_cache_scorer();

namespace {

using kv_precise::PreciseCache;

using kv_events::Event;
using schedule::PrefixMatch;
using schedule::testing::Harness;
using testing::TokenRequest;
using namespace std::chrono_literals;

constexpr std::string_view kName = "precise-prefix-cache-producer";
constexpr std::string_view kDeaf = "kvEventsConfig: {discoverPods: false}";

class PreciseProducer : public ::testing::Test {
 protected:
  void configure(const std::string& parameters = "") {
    const auto yaml = parameters + (parameters.empty() ? "" : "\n") + std::string(kDeaf);
    producer_ = &harness_.make<schedule::Producer>(precise_prefix_cache_producer(), yaml);
    matches_ = harness_.wiring.consumes<PrefixMatch>(kName, schedule::Need::kOptional);
    for (size_t i = 0; i < harness_.endpoints.size(); ++i) harness_.join(i);
    attach(yaml, kName, false);
  }
  /// To what the plugin has made with these parameters.
  void attach(const std::string& yaml, std::string_view name, bool legacy) {
    const auto node = codec::parse_yaml(yaml, "test.yaml");
    auto params = kv_precise::precise_params(legacy).parse(&*node);
    ASSERT_TRUE(params && complete(*params));
    cache_ = PreciseCache::of(*params, identity(*params, legacy),
                              {name, harness_.state, harness_.metric_registry(), harness_.clock});
    publishers_.clear();
    for (const auto& endpoint : harness_.endpoints)
      publishers_.push_back({endpoint->host_port(), 1, {}, nullptr});
    for (auto& publisher : publishers_) cache_->feed().on_joined(publisher);
  }
  /// Endpoint i says that it has, or has not any more, the first n tokens from 1 on.
  void say(size_t i, uint32_t n, std::string_view medium = "gpu", bool stored = true,
           std::string_view salt = "") {
    const uint32_t size = 16;
    std::vector<uint32_t> tokens(n);
    std::iota(tokens.begin(), tokens.end(), 1u);
    std::vector<uint64_t> blocks(n / size);
    std::iota(blocks.begin(), blocks.end(), 100u);
    const kv_events::Extras extras = {&salt, 1};
    Event event{.type = stored ? Event::Type::kStored : Event::Type::kRemoved,
                .blocks = blocks,
                .medium = medium,
                .tokens = tokens,
                .block_tokens = size};
    if (!salt.empty()) event.extras = {&extras, 1};
    cache_->feed().on_batch(publishers_[i], "m", {.events = {&event, 1}});
  }
  std::span<const PrefixMatch> produce() {
    EXPECT_TRUE(producer_->produce(harness_.context));
    return harness_.context.read(matches_);
  }
  PrefixMatch match_of(size_t endpoint, std::vector<uint32_t> prompts,
                       std::string_view model = "m") {
    TokenRequest request(harness_, std::move(prompts), model);
    const auto matches = produce();
    return matches.empty() ? PrefixMatch{} : matches[endpoint];
  }
  using Stages = std::vector<std::string>;
  /// Name and attributes of each span below the first, without the prefixes of their keys.
  static Stages stages_of(const trace::Trace& trace) {
    Stages stages;
    for (const auto* span = trace.first()->next; span; span = span->next) {
      std::string attributes;
      for (const auto* a = span->attributes; a; a = a->next) {
        const auto key = a->key.substr(a->key.rfind('.') + 1);
        const std::string value = std::visit([](auto v) { return fmt::format("{}", v); }, a->value);
        attributes = " " + std::string(key) + "=" + value + attributes;
      }
      stages.push_back(std::string(span->name) + attributes);
    }
    return stages;
  }
  using Tiers = std::map<std::string_view, int64_t>;
  Tiers tiers_of(size_t endpoint, std::vector<uint32_t> prompts, std::string_view model = "m") {
    Tiers tiers;
    const auto match = match_of(endpoint, std::move(prompts), model);
    if (match.cached)
      for (const auto& [tier, blocks] : match.cached->by_tier.tiers) tiers[tier] = blocks;
    return tiers;
  }
  void send_to(uint32_t target, std::vector<uint32_t> prompts) {
    TokenRequest request(harness_, std::move(prompts));
    produce();
    harness_.choose(0, target);
    EXPECT_TRUE(
        dynamic_cast<const schedule::PreRequest&>(*producer_).pre_request(harness_.context));
  }
  void answer(const request::Usage& usage) {
    dynamic_cast<const schedule::ResponseHook&>(*producer_)
        .on_end(harness_.context, schedule::EndCause::kNatural, usage);
  }
  std::string error_of(std::string_view parameters) {
    const auto made = harness_.try_make(precise_prefix_cache_producer(), parameters);
    return made ? "" : made.error().message;
  }
  std::string parameters_of(std::string_view parameters) {
    const auto made = harness_.try_make(precise_prefix_cache_producer(), parameters);
    return made ? made->parameters : made.error().message;
  }

  Harness harness_{2};
  const schedule::Producer* producer_ = nullptr;
  schedule::Consumed<PrefixMatch> matches_;
  std::shared_ptr<PreciseCache> cache_;
  std::vector<kv_events::Publisher> publishers_;
};

TEST_F(PreciseProducer, MatchesWhatEndpointsSay) {
  configure();
  say(0, 32);
  say(1, 64);
  const auto match = match_of(0, {50});
  EXPECT_EQ(match.match_blocks, 2);
  EXPECT_EQ(match.total_blocks, 3);
  EXPECT_EQ(match.block_tokens, 16);
  EXPECT_EQ(match.cached_blocks, 2);
  EXPECT_EQ(tiers_of(0, {50}), (Tiers{{"gpu", 2}}));
  EXPECT_EQ(match_of(1, {50}).match_blocks, 3);
  say(1, 64, "gpu", false);
  EXPECT_EQ(match_of(1, {50}).match_blocks, 0);
  EXPECT_EQ(match_of(0, {50}, "adapter").match_blocks, 0);
}

/// Spec 05 §12, V4.
TEST_F(PreciseProducer, TruncatesWhatTiersWeigh) {
  configure();
  for (const auto& [blocks, weighed] : {std::pair{1u, 0},
                                        {2u, 1},
                                        {3u, 2},
                                        {5u, 4},
                                        {6u, 4},
                                        {8u, 6},
                                        {10u, 7},
                                        {15u, 12},
                                        {100u, 79},
                                        {1000u, 799}}) {
    say(0, blocks * 16, "cpu");
    const auto match = match_of(0, {blocks * 16});
    EXPECT_EQ(match.match_blocks, weighed) << blocks;
    EXPECT_EQ(match.cached_blocks, blocks);
  }
}

/// Spec 05 §12, V4.
TEST_F(PreciseProducer, TellsInWhichTierBlocksAre) {
  configure("speculativeIndexing: true");
  say(0, 32);
  EXPECT_EQ(tiers_of(0, {32}), (Tiers{{"gpu", 2}}));
  say(0, 32, "cpu");
  EXPECT_EQ(tiers_of(0, {32}), (Tiers{{"cpu", 2}, {"gpu", 2}}));
  say(0, 32, "gpu", false);
  say(0, 16, "gpu");
  EXPECT_EQ(match_of(0, {32}).match_blocks, 1);
  EXPECT_EQ(match_of(0, {32}).cached_blocks, 2);
  EXPECT_EQ(tiers_of(0, {32}), (Tiers{{"cpu", 2}, {"gpu", 1}}));
  EXPECT_EQ(tiers_of(0, {32, 16}), (Tiers{{"cpu", 3}, {"gpu", 2}})) << "of two prompts";

  send_to(1, {32});
  say(1, 16);
  EXPECT_EQ(tiers_of(1, {32}), (Tiers{{"gpu", 1}, {"speculative", 2}}));
  EXPECT_EQ(tiers_of(1, {16}, "other"), Tiers());
  EXPECT_TRUE(match_of(1, {16}, "other").cached) << "none, and that is known";
}

TEST_F(PreciseProducer, CountsCachedBlocksWithMedia) {
  configure();
  say(0, 48);
  std::vector<request::MediaHash> media = {{.offset = 70, .length = 1},
                                           {.offset = 15, .length = 2},
                                           {.offset = 20, .length = 9},
                                           {.offset = 40, .length = 0},
                                           {.offset = 4'000'000'000, .length = 4'000'000'000}};
  const auto counted = [&](std::vector<uint32_t> prompts) {
    TokenRequest request(harness_, std::move(prompts));
    std::vector<request::Prompt> with_media(request.view.prompts.begin(),
                                            request.view.prompts.end());
    for (auto& prompt : with_media) prompt.media = media;
    request.view.prompts = with_media;
    const auto matches = produce();
    return std::pair(matches[0].cached->media, matches[1].cached->media);
  };
  // Blocks 0, 1 and 4; of these 0 and 1 are within the three that are cached.
  EXPECT_EQ(counted({80}), std::pair(std::optional<int64_t>(2), std::optional<int64_t>(0)));
  EXPECT_EQ(counted({16}).first, 1);
  EXPECT_EQ(counted({80, 16}).first, std::nullopt) << "several prompts";
  media = {{.length = UINT32_MAX}};
  EXPECT_EQ(counted({80}).first, 3);
  media.clear();
  EXPECT_EQ(counted({80}).first, std::nullopt);
}

TEST_F(PreciseProducer, WeighsTiersAsConfigured) {
  configure("indexerConfig: {kvCacheBackendConfigs: [{name: disk, weight: 0.5}]}");
  say(0, 64, "disk");
  EXPECT_EQ(match_of(0, {64}).match_blocks, 2);
  say(1, 64, "cpu");  // not named
  EXPECT_EQ(match_of(1, {64}).match_blocks, 4);
}

TEST_F(PreciseProducer, SumsSeveralPrompts) {
  configure();
  say(0, 32);
  const auto match = match_of(0, {48, 16, 3});
  EXPECT_EQ(match.match_blocks, 3);
  EXPECT_EQ(match.total_blocks, 4);
  EXPECT_EQ(match.cached_blocks, 3);
}

TEST_F(PreciseProducer, WritesNothingWithoutAWholeBlock) {
  configure();
  TokenRequest request(harness_, {15});
  EXPECT_TRUE(produce().empty());
  harness_.fresh_request();
  harness_.context.request = nullptr;
  EXPECT_TRUE(produce().empty());
}

TEST_F(PreciseProducer, HashesSaltsAndMedia) {
  configure();
  say(0, 32, "gpu", true, "tenant-1");
  EXPECT_EQ(match_of(0, {32}).match_blocks, 0);
  TokenRequest request(harness_, {32});
  request.view.cache_salt = "tenant-1";
  EXPECT_EQ(produce()[0].match_blocks, 2);

  say(1, 32, "gpu", true, "hash-of-image");
  const request::MediaHash media[] = {{.hash = "hash-of-image", .offset = 2, .length = 5}};
  TokenRequest with_image(harness_, {32});
  request::Prompt prompt = with_image.view.prompts[0];
  prompt.media = media;
  with_image.view.prompts = {&prompt, 1};
  EXPECT_EQ(produce()[1].match_blocks, 2);
}

TEST_F(PreciseProducer, BelievesForAWhileWhatItSent) {
  configure("speculativeIndexing: true\nspeculativeTTL: 3s");
  send_to(1, {32});
  EXPECT_EQ(match_of(1, {48}).match_blocks, 2);
  EXPECT_EQ(match_of(0, {48}).match_blocks, 0);
  harness_.clock.advance(2s);
  send_to(1, {32});
  harness_.clock.advance(1s);  // the first ends, the second lasts
  EXPECT_EQ(match_of(1, {48}).match_blocks, 2);
  say(1, 16);
  harness_.clock.advance(2s);
  EXPECT_EQ(match_of(1, {48}).match_blocks, 1);
}

TEST_F(PreciseProducer, DoesNotBelieveWhoFailed) {
  configure("speculativeIndexing: true");
  send_to(1, {32});
  send_to(1, {32});
  const auto& hook = dynamic_cast<const schedule::ResponseHook&>(*producer_);
  hook.on_end(harness_.context, schedule::EndCause::kError, {});
  EXPECT_EQ(match_of(1, {48}).match_blocks, 2) << "of the first request";
  send_to(1, {32});
  hook.on_end(harness_.context, schedule::EndCause::kClientDisconnect, {});
  EXPECT_EQ(match_of(1, {48}).match_blocks, 2);
  for (int i = 0; i < 3; ++i) {
    TokenRequest request(harness_, {32});
    produce();
    harness_.choose(0, 1);
    hook.on_end(harness_.context, schedule::EndCause::kError, {});
  }
  EXPECT_EQ(match_of(1, {48}).match_blocks, 0);
}

TEST_F(PreciseProducer, BelievesWhoServedInstead) {
  configure("speculativeIndexing: true");
  TokenRequest request(harness_, {32});
  produce();
  harness_.choose(0, 1);
  dynamic_cast<const schedule::PreRequest&>(*producer_).pre_request(harness_.context);
  harness_.choose(0, 0);
  dynamic_cast<const schedule::MovedHook&>(*producer_).on_moved(harness_.context);
  EXPECT_EQ(produce()[0].match_blocks, 2);
}

TEST_F(PreciseProducer, DoesNotGuessUnlessAsked) {
  configure();
  send_to(1, {32});
  EXPECT_EQ(match_of(1, {48}).match_blocks, 0);
}

TEST_F(PreciseProducer, ForgetsWhatProvesWrong) {
  configure();
  say(0, 64);
  for (int i = 0; i < 16; ++i) {
    EXPECT_EQ(match_of(0, {64}).match_blocks, 4);
    send_to(0, {64});
    answer({.prompt_tokens = 64, .cached_tokens = 0, .present = true});
  }
  EXPECT_EQ(match_of(0, {64}).match_blocks, 0);
  EXPECT_TRUE(cache_->feed().publishers()[0].partial);
  EXPECT_FALSE(nlohmann::json::parse(producer_->dump_state())["promises"][0]["trusted"]);
  send_to(0, {32});  // what it is sent now is all that is known of it
  EXPECT_EQ(match_of(0, {64}).match_blocks, 2);
  harness_.clock.advance(1min);
  EXPECT_EQ(match_of(0, {64}).match_blocks, 0);
}

TEST_F(PreciseProducer, JudgesOnlyWholeAnswers) {
  configure();
  say(0, 64);
  const auto& hook = dynamic_cast<const schedule::ResponseHook&>(*producer_);
  for (int i = 0; i < 100; ++i) {
    send_to(0, {64});
    hook.on_end(harness_.context, schedule::EndCause::kClientDisconnect,
                {.prompt_tokens = 64, .cached_tokens = 0, .present = true});
    send_to(0, {64});
    answer({});
    send_to(0, {15});  // nothing was looked up
    answer({.prompt_tokens = 15, .cached_tokens = 0, .present = true});
  }
  EXPECT_EQ(match_of(0, {64}).match_blocks, 4);
}

// As vLLM 0.32 answers.
TEST_F(PreciseProducer, DoesNotJudgeAnswersThatDoNotTell) {
  configure();
  say(0, 64);
  send_to(0, {64});
  answer({.prompt_tokens = 64, .cached_tokens = 48, .present = true});
  for (int i = 0; i < 100; ++i) {
    send_to(0, {64, 64, 64});  // the cached tokens of one prompt
    answer({.prompt_tokens = 192, .cached_tokens = 48, .present = true});
    TokenRequest request(harness_, {64});  // computed whole
    request.view.prompt_logprobs = true;
    produce();
    harness_.choose(0, 0);
    answer({.prompt_tokens = 64, .cached_tokens = 0, .present = true});
  }
  EXPECT_FALSE(cache_->feed().publishers()[0].partial) << "it was forgotten";
  EXPECT_TRUE(nlohmann::json::parse(producer_->dump_state())["promises"][0]["trusted"]);
}

TEST_F(PreciseProducer, ForgetsEndpointsThatLeave) {
  configure();
  say(0, 32);
  harness_.leave(0);
  EXPECT_EQ(match_of(0, {32}).match_blocks, 0);
}

TEST_F(PreciseProducer, KeepsItsIndexOverAReload) {
  configure();
  say(0, 32);
  const auto before = cache_;
  configure();
  EXPECT_EQ(cache_, before);
  EXPECT_EQ(match_of(0, {32}).match_blocks, 2);
  configure("tokenProcessorConfig: {blockSize: 32}");
  EXPECT_NE(cache_, before);
  EXPECT_EQ(cache_->keys().block_tokens(), 32u);
}

TEST_F(PreciseProducer, ShowsItsState) {
  configure("speculativeIndexing: true");
  say(0, 32);
  cache_->feed().on_lost(publishers_[1], 1);
  send_to(1, {32});
  auto state = nlohmann::json::parse(producer_->dump_state());
  EXPECT_GT(state["index"]["bytes"], 0);
  state["index"].erase("bytes");
  EXPECT_EQ(state, nlohmann::json::parse(R"({
    "subscribers": [{"pod": "10.0.0.0:8000", "blocks": 2, "partial": false},
                    {"pod": "10.0.0.1:8000", "blocks": 2, "partial": true}],
    "totalSubscribers": 2, "maxSubscribers": 100, "speculativeIndexing": true,
    "speculativeEntries": [{"endpoint": "default/e1", "blocks": 2}],
    "totalSpeculativeEntries": 1, "maxSpeculativeEntries": 100, "promises": [], "totalPromises": 0,
    "blockSizeTokens": 16,
    "index": {"blocks": 2, "holdings": 4, "evicted": 0}})"));
}

TEST_F(PreciseProducer, CountsWhenAsked) {
  configure("indexerConfig: {kvBlockIndexConfig: {enableMetrics: true}}");
  say(0, 48);
  say(0, 48);
  say(0, 32, "gpu", false);
  match_of(0, {64});
  const auto page = harness_.metric_registry().render();
  for (const auto* line :
       {"llm_d_epp_kv_cache_index_admissions_total 6", "kvcache_index_evictions_total 2",
        "llm_d_epp_kv_cache_index_lookup_requests_total 1",
        "llm_d_epp_kv_cache_index_lookup_hits_total 3", "kvcache_index_max_pod_hit_count_total 3",
        "llm_d_epp_kv_cache_index_lookup_latency_seconds_count 1",
        "llm_d_epp_kv_cache_events_dedup_removed_hashes_suppressed_total 2",
        "kvcache_kvevents_dedup_removed_hashes_forwarded_total 0", "llmd_kv_index_blocks 3"})
    EXPECT_NE(page.find("\n" + std::string(line) + "\n"), page.npos) << line << "\n" << page;
}

TEST_F(PreciseProducer, CountsNothingUnlessAsked) {
  configure();
  say(0, 48);
  match_of(0, {64});
  EXPECT_EQ(harness_.metric_registry().render().find("kv_cache_index"), std::string::npos);
}

TEST_F(PreciseProducer, LeavesItsStagesInTheTrace) {
  configure();
  say(1, 32);
  TokenRequest request(harness_, {50, 16});
  auto& c = harness_.context;
  trace::Trace trace(c.arena, c.rng, c.clock, {.trace_low = 1, .span = 1}, 0, "request");
  c.trace = &trace;
  produce();
  EXPECT_EQ(stages_of(trace),
            (Stages{"produce_precise_prefix_cache candidate_endpoints=2 total_blocks=4 "
                    "max_match_blocks=3",
                    "score_tokens pod_count=2 token_count=50 count=3 "
                    "block_hit_ratio=0.6666666666666666 blocks_found=2",
                    "index_lookup block_count=3 pod_filter_count=2 cache_hit=1 blocks_found=2",
                    "compute_scores algorithm=LongestPrefix key_count=3 pods_scored=1 max=2 avg=2",
                    "score_tokens pod_count=2 token_count=16 count=1 block_hit_ratio=1 "
                    "blocks_found=1",
                    "index_lookup block_count=1 pod_filter_count=2 cache_hit=1 blocks_found=1",
                    "compute_scores algorithm=LongestPrefix key_count=1 pods_scored=1 max=1 "
                    "avg=1"}));
  TokenRequest short_one(harness_, {15});
  trace::Trace other(c.arena, c.rng, c.clock, {.trace_low = 1, .span = 1}, 0, "request");
  c.trace = &other;
  produce();
  c.trace = nullptr;
  EXPECT_EQ(stages_of(other),
            Stages{"produce_precise_prefix_cache candidate_endpoints=2 total_blocks=0 "
                   "result=skipped_no_tokens"});
}

TEST_F(PreciseProducer, ReadsItsParametersStrictly) {
  EXPECT_EQ(error_of(""), "");
  EXPECT_EQ(error_of("{TOKENPROCESSORCONFIG: {blocksize: 64}, indexerConfig: {kvBlockIndexConfig: "
                     "{inMemoryConfig: {podCacheSize: 10}, metricsLoggingInterval: 1m0s}}}"),
            "");
  EXPECT_EQ(error_of("indexerConfig: {kvBlockIndexConfig: {metricsLoggingInterval: 60000000000}}"),
            "");
  EXPECT_NE(
      parameters_of("indexerConfig: {kvBlockIndexConfig: {metricsLoggingInterval: 90000000000}}")
          .find(R"("metricsLoggingInterval":"1m30s")"),
      std::string::npos);
  EXPECT_EQ(error_of("{speculativeTTL: ''}"), "");
  EXPECT_NE(parameters_of("tokenProcessorConfig: {blockSize: 64}").find(R"("blockSizeTokens":64)"),
            std::string::npos);
  const struct {
    std::string_view parameters, says;
  } kWrong[] = {
      {"tokenProcessorConfig: {blockSizeTokens: -1}", "tokenProcessorConfig.blockSizeTokens"},
      {"tokenProcessorConfig: {hashAlgorithm: sha256}", "'xxh64'"},
      {"tokenProcesorConfig: {}", "did you mean 'tokenProcessorConfig'"},
      {"indexerConfig: {tokenizersPoolConfig: {modelName: m}}", "token-producer"},
      {"indexerConfig: {kvBlockIndexConfig: {redisConfig: {address: 'reddis://:secret@cache'}}}",
       "redisConfig.address': 'reddis' is no scheme"},
      {"indexerConfig: {kvBlockIndexConfig: {redisConfig: {backendType: memcached}}}",
       "redisConfig.backendType"},
      {"indexerConfig: {kvBlockIndexConfig: {valkeyConfig: {}}}", "valkeyConfig"},
      {"indexerConfig: {kvBlockIndexConfig: {inMemoryConfig: {size: 0}}}", "inMemoryConfig.size"},
      {"indexerConfig: {kvBlockIndexConfig: {costAwareMemoryConfig: {}}}", "such as 2GiB"},
      {"indexerConfig: {kvBlockScorerConfig: {scoringStrategy: Hybrid}}", "LongestPrefix"},
      {"kvEventsConfig: {concurrency: 0}", "kvEventsConfig.concurrency"},
      {"kvEventsConfig: {engineType: vlm}", "'vllm'"},
      {"kvEventsConfig: {podDiscoveryConfig: {socketPort: 70000}}", "socketPort"},
      {"speculativeTTL: soon", "speculativeTTL"},
  };
  for (const auto& wrong : kWrong)
    EXPECT_NE(error_of(wrong.parameters).find(wrong.says), std::string::npos)
        << wrong.parameters << ": " << error_of(wrong.parameters);
  EXPECT_EQ(error_of("indexerConfig: {kvBlockIndexConfig: {costAwareMemoryConfig: {size: 2GiB}}}"),
            "");
}

TEST_F(PreciseProducer, ChoosesTheIndexAsConfigured) {
  const auto chosen = [](const std::string& index) {
    const auto node = codec::parse_yaml("indexerConfig: {kvBlockIndexConfig: " + index + "}", "f");
    auto params = kv_precise::precise_params(false).parse(&*node);
    EXPECT_TRUE(params && complete(*params)) << index;
    return *params;
  };
  EXPECT_FALSE(chosen("{}").shared);
  EXPECT_EQ(chosen("{redisConfig: {}}").shared->name(), "redis://127.0.0.1:6379/0");
  EXPECT_EQ(chosen("{redisConfig: {}}").algorithm, kv::KeyAlgorithm::kCborFnv);
  EXPECT_FALSE(chosen("{redisConfig: {}, costAwareMemoryConfig: {size: 2GiB}}").shared);
  EXPECT_EQ(chosen("{redisConfig: {address: 'valkey://cache', backendType: valkey, enableRDMA: "
                   "true}, inMemoryConfig: {}}")
                .shared->host,
            "cache");
}

TEST_F(PreciseProducer, ShowsNoPassword) {
  const auto shown = [&](const std::string& password) {
    return parameters_of("indexerConfig: {kvBlockIndexConfig: {redisConfig: {address: 'redis://:" +
                         password + "@cache'}}}");
  };
  EXPECT_NE(shown("word").find(R"("address":"redis://cache:6379/0")"), std::string::npos);
  EXPECT_EQ(shown("word"), shown("other"));
}

/// Nobody answers there: what this process knows counts, and no request waits.
TEST_F(PreciseProducer, GoesOnWithoutASharedIndex) {
  configure(
      "indexerConfig: {kvBlockIndexConfig: {redisConfig: {address: 'unix:///nowhere/redis'}}}");
  say(0, 32);
  EXPECT_EQ(match_of(0, {50}).match_blocks, 2);
  say(0, 32, "gpu", false);
  EXPECT_EQ(match_of(0, {50}).match_blocks, 0);
}

TEST_F(PreciseProducer, LegacyScorerScoresTheProducerBeforeIt) {
  configure();
  const auto& scorer = harness_.make<schedule::Scorer>(precise_prefix_cache_scorer());
  EXPECT_EQ(harness_.wiring.edges().back().key,
            "PrefixCacheMatchInfoDataKey/precise-prefix-cache-producer");
  say(0, 16);
  TokenRequest request(harness_, {64});
  produce();
  EXPECT_EQ(harness_.scores(scorer), (std::vector<double>{0.25, 0}));
}

TEST_F(PreciseProducer, LegacyScorerDoesTheWorkItself) {
  const auto& scorer = harness_.make<schedule::Scorer>(precise_prefix_cache_scorer(), kDeaf);
  harness_.join(0);
  attach(std::string(kDeaf), "precise-prefix-cache-scorer", true);
  say(0, 16);
  TokenRequest request(harness_, {64});
  producer_ = dynamic_cast<const schedule::Producer*>(&scorer);
  produce();
  EXPECT_EQ(harness_.scores(scorer), (std::vector<double>{0.25, 0}));
}

TEST_F(PreciseProducer, LegacyScorerCannotChooseAmongProducers) {
  harness_.make<schedule::Producer>(precise_prefix_cache_producer(), kDeaf, "a");
  harness_.make<schedule::Producer>(precise_prefix_cache_producer(), kDeaf, "b");
  harness_.make<schedule::Scorer>(precise_prefix_cache_scorer());
  EXPECT_EQ(harness_.wiring.edges().back().key, "PrefixCacheMatchInfoDataKey/a or b");
}

}  // namespace
}  // namespace llmd::plugins
