#include "kv_indexer/indexer.h"

#include "requests.h"

#include "codec/node.h"
#include "kv_indexer/config.h"
#include "plugin/state_store.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <numeric>

namespace llmd::kv_indexer {
namespace {

using nlohmann::json;

/// Two pods, of which the test says what they hold of the tokens from 1 on.
class IndexerTest : public ::testing::Test {
 protected:
  IndexerTest() {
    std::vector<fleet::EndpointSpec> specs;
    for (const std::string name : {"a", "b"}) {
      auto& spec = specs.emplace_back();
      spec.name = name;
      spec.address = "10.0.0." + std::to_string(specs.size());
      spec.port = 8000;
    }
    listening_ = fleet_.listen(cache_);
    fleet_.set(std::move(specs));
    const auto snapshot = fleet_.snapshot();
    publishers_.reserve(snapshot->endpoints.size());
    for (const auto& endpoint : snapshot->endpoints)
      publishers_.push_back({std::string(endpoint->host_port()), 1, {}, nullptr});
    for (auto& publisher : publishers_) cache_->feed().on_joined(publisher);
  }

  static std::vector<uint32_t> tokens(uint32_t n) {
    std::vector<uint32_t> out(n);
    std::iota(out.begin(), out.end(), 1u);
    return out;
  }
  void say(size_t pod, uint32_t n, std::string_view medium = "gpu", std::string_view salt = "") {
    const auto ids = tokens(n);
    std::vector<uint64_t> blocks(n / 16);
    std::iota(blocks.begin(), blocks.end(), 100u);
    const kv_events::Extras extras = {&salt, 1};
    kv_events::Event event{.type = kv_events::Event::Type::kStored,
                           .blocks = blocks,
                           .medium = medium,
                           .tokens = ids,
                           .block_tokens = 16};
    if (!salt.empty()) event.extras = {&extras, 1};
    cache_->feed().on_batch(publishers_[pod], "m", {.events = {&event, 1}});
  }
  json scores(const Question& question, const std::vector<uint32_t>& lengths) {
    std::vector<render::RenderedPrompt> prompts;
    prompts.reserve(lengths.size());
    for (const auto n : lengths) prompts.push_back({.token_ids = tokens(n), .media = {}});
    return json::parse(scores_json(indexer_.score(indexer_.look_up(question, prompts), more_)));
  }

  static kv_precise::PreciseParams params() {
    return read_config("precise-prefix-cache-producer: {kvEventsConfig: {discoverPods: false}}",
                       "file")
        ->index;
  }

  ManualClock clock_;
  plugin::StateStore state_;
  metric::Registry metrics_{1};
  fleet::Fleet fleet_;
  const std::shared_ptr<kv_precise::PreciseCache> cache_ =
      std::make_shared<kv_precise::PreciseCache>(params(),
                                                 plugin::Context{"test", state_, metrics_, clock_},
                                                 std::weak_ptr<kv_precise::PreciseCache>());
  std::shared_ptr<void> listening_;
  std::vector<kv_events::Publisher> publishers_;
  const Indexer indexer_{cache_, fleet_, {}};
  std::vector<kv_shared::Hit> more_;
};

TEST_F(IndexerTest, ScoresPodsTheBestFirst) {
  say(0, 32);
  say(1, 48);
  say(1, 64, "cpu");
  EXPECT_EQ(scores({.model = "m"}, {70}), json::parse(R"({
    "block_size_tokens": 16, "total_blocks": 4, "pods": [
      {"pod": "10.0.0.2:8000", "score": 3.8, "blocks": 4, "tiers": {"gpu": 3, "cpu": 4}},
      {"pod": "10.0.0.1:8000", "score": 2.0, "blocks": 2, "tiers": {"gpu": 2}}]})"));
  EXPECT_EQ(scores({.model = "m"}, {70, 32, 15})["total_blocks"], 6);
  EXPECT_EQ(scores({.model = "m"}, {70, 32, 15})["pods"][1]["score"], 4);
}

TEST_F(IndexerTest, LeavesOutPodsThatHaveNothing) {
  say(0, 32);
  const auto none = json::array();
  EXPECT_EQ(scores({.model = "m"}, {32})["pods"].size(), 1u);
  EXPECT_EQ(scores({.model = "m", .pods = {"10.0.0.2:8000", "10.0.0.9:8000"}}, {32})["pods"], none);
  EXPECT_EQ(scores({.model = "m", .pods = {"10.0.0.1:8000"}}, {32})["pods"].size(), 1u);
  EXPECT_EQ(scores({.model = "other"}, {32})["pods"], none);
  EXPECT_EQ(scores({.model = "m", .cache_salt = "s"}, {32})["pods"], none);
  EXPECT_EQ(scores({.model = "m"}, {15})["pods"], none);
}

TEST_F(IndexerTest, KnowsSaltsAndMedia) {
  say(0, 32, "gpu", "s");
  EXPECT_EQ(scores({.model = "m", .cache_salt = "s"}, {32})["pods"].size(), 1u);
  const std::vector<render::RenderedPrompt> image{
      {.token_ids = tokens(32), .media = {{request::Modality::kImage, "s", 0, 16}}}};
  EXPECT_EQ(indexer_.score(indexer_.look_up({.model = "m"}, image), {}).pods.size(), 1u);
}

TEST_F(IndexerTest, TakesOverWhatTheSharedIndexKnowsOfMore) {
  say(0, 48);
  say(1, 16);
  more_ = {{.score = 1, .blocks = 1, .tiers = {{"gpu", 1}}},
           {.score = 2.8, .blocks = 3, .tiers = {{"gpu", 2}, {"", 3}}}};
  EXPECT_EQ(scores({.model = "m"}, {48})["pods"], json::parse(R"([
      {"pod": "10.0.0.1:8000", "score": 3.0, "blocks": 3, "tiers": {"gpu": 3}},
      {"pod": "10.0.0.2:8000", "score": 2.8, "blocks": 3,
       "tiers": {"gpu": 2, "speculative": 3}}])"));
}

TEST(IndexerConfig, HasTheParametersOfPlugins) {
  const auto config = read_config(
      "precise-prefix-cache-producer: {tokenProcessorConfig: {blockSize: 64}}\n"
      "token-producer: {modelName: m, vllm: {url: 'http://render:8000'}}",
      "file");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->index.tokens.block_tokens, 64);
  EXPECT_EQ(config->tokens->model, "m");
  EXPECT_EQ(read_config("{}", "file")->index.tokens.block_tokens, 16);
  EXPECT_FALSE(read_config("{}", "file")->tokens);
}

TEST(IndexerConfig, NamesWhatIsWrong) {
  const struct {
    std::string_view text, says;
  } kWrong[] = {
      {"token-produser: {}", "did you mean 'token-producer'"},
      {"precise-prefix-cache-producer: {kvEventsConfig: {concurrency: 0}}",
       "file:1: parameter 'precise-prefix-cache-producer.kvEventsConfig.concurrency'"},
      {"token-producer: {estimate: {}}", "token-producer.estimate"},
      {"kind: EndpointPickerConfig", "file: this is a configuration of llmd router or llmd epp"},
      {"token-producer: {}", "file: parameter 'token-producer': give 'local' or 'modelName'"},
      {"precise-prefix-cache-producer: {speculativeTTL: soon}", "file: parameter 'speculativeTTL'"},
  };
  for (const auto& wrong : kWrong) {
    const auto config = read_config(wrong.text, "file");
    ASSERT_FALSE(config) << wrong.text;
    EXPECT_TRUE(config.error().message.contains(wrong.says)) << config.error().message;
  }
}

}  // namespace
}  // namespace llmd::kv_indexer
