#include "kv_precise/precise_feed.h"

#include "kv_events/batch_decoder.h"
#include "kv_events/topic.h"

#include <gtest/gtest.h>

#include <deque>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

namespace llmd::kv_precise {
namespace {

using kv_events::CacheKind;
using kv_events::Event;
using Tokens = std::vector<uint32_t>;
using Blocks = std::vector<uint64_t>;

constexpr uint64_t kE1 = 3236607068019569386;
constexpr uint64_t kE2 = 2758186210834249151;

Tokens tokens(uint32_t from, uint32_t to) {
  Tokens out(to - from + 1);
  std::iota(out.begin(), out.end(), from);
  return out;
}

std::string bytes(std::string_view hex) {
  std::string out;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    out.push_back(static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
  return out;
}

/// A feed with two endpoints, and what their engines say.
class PreciseFeedTest : public ::testing::Test {
 protected:
  static constexpr kv::Holder kHolder{.slot = 3, .generation = 7};
  static constexpr kv::Holder kOther{.slot = 4, .generation = 8};

  explicit PreciseFeedTest(size_t block_tokens = 16)
      : keys_(kv::KeyAlgorithm::kCborFnv, "", block_tokens), feed_(index_, tiers_, keys_) {
    feed_.add_endpoint(publisher_.pod, kHolder);
    feed_.add_endpoint(other_.pod, kOther);
    feed_.on_joined(publisher_);
    feed_.on_joined(other_);
  }
  ~PreciseFeedTest() override { EXPECT_EQ(index_.check(), ""); }

  void say(const Event& event, std::string_view model = "test-model") {
    feed_.on_batch(publisher_, model, {.events = {&event, 1}});
  }
  void say_payload(std::string_view hex) {
    const std::string payload = bytes(hex);
    const auto batch = decoder_.decode(payload);
    ASSERT_TRUE(batch);
    feed_.on_batch(publisher_, kv_events::parse_topic("kv@10.0.0.1:8000@test-model").model, *batch);
  }
  Event stored(Blocks blocks, Tokens tokens, uint64_t parent = 0) {
    const auto& b = blocks_.emplace_back(std::move(blocks));
    const auto& t = tokens_.emplace_back(std::move(tokens));
    return {.type = Event::Type::kStored,
            .blocks = b,
            .medium = "gpu",
            .parent = parent,
            .tokens = t,
            .block_tokens = static_cast<uint32_t>(b.empty() ? 0 : t.size() / b.size())};
  }
  Event removed(Blocks blocks) {
    const auto& b = blocks_.emplace_back(std::move(blocks));
    return {.type = Event::Type::kRemoved, .blocks = b, .medium = "gpu"};
  }

  std::vector<uint64_t> chain(const Tokens& prompt, std::string_view model = "test-model",
                              std::span<const kv::Extra> extras = {}) const {
    std::vector<uint64_t> keys(keys_.blocks_of(prompt.size()));
    keys_.chain(keys_.root(model), prompt, extras, keys);
    return keys;
  }
  kv::PrefixHit match(std::span<const uint64_t> chain, const kv::Holder& holder = kHolder) const {
    kv::PrefixHit hit;
    index_.match(chain, std::span(&holder, 1), std::span(&hit, 1));
    return hit;
  }
  kv::PrefixHit match(const Tokens& prompt) const { return match(chain(prompt)); }

  std::deque<Blocks> blocks_;  // of the events
  std::deque<Tokens> tokens_;
  std::vector<TierWeight> weights_{{"gpu", 1.0}, {"cpu", 0.8}};
  TierNames tiers_{weights_};
  PreciseStore index_{{}, tiers_};
  kv::BlockKeys keys_;
  PreciseFeed feed_;
  kv_events::Publisher publisher_{"10.0.0.1:8000", 1, {}, nullptr};
  kv_events::Publisher other_{"10.0.0.2:8000", 2, {}, nullptr};
  kv_events::BatchDecoder decoder_{**kv_events::find_adapter("vllm")};
};

class PreciseFeed64 : public PreciseFeedTest {
 protected:
  PreciseFeed64() : PreciseFeedTest(64) {}
};

constexpr std::string_view kA1 =
    "93cb3ff8000000000000919bab426c6f636b53746f72656492cf2ceabcfae6d332eacf26470bbec927f5bfc0dc0020"
    "0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f2010c0a3475055c092c0c000ae66756c"
    "6c5f617474656e74696f6e00";
constexpr std::string_view kA3 =
    "93cb3ff80000000000009195ab426c6f636b53746f72656491cf26470bbec927f5bfcf2ceabcfae6d332eadc001011"
    "12131415161718191a1b1c1d1e1f201000";
constexpr std::string_view kA4 =
    "93cb3ff80000000000009197ab426c6f636b53746f72656492cf2ceabcfae6d332eacf26470bbec927f5bfc09000c0"
    "a343505500";
constexpr std::string_view kR1 =
    "93cb40000000000000009193ac426c6f636b52656d6f76656492cf2ceabcfae6d332eacf26470bbec927f5bfa34750"
    "5500";
constexpr std::string_view kR2 =
    "93cb40000000000000009184a474797065ac426c6f636b52656d6f766564ac626c6f636b5f68617368657391cf2647"
    "0bbec927f5bfa66d656469756da3475055a967726f75705f6964780000";
constexpr std::string_view kC1 = "93cb40080000000000009191b0416c6c426c6f636b73436c656172656400";

/// Spec 05 §12, V3 and V4.
TEST_F(PreciseFeedTest, FollowsTheScenario) {
  const auto t = tokens(1, 32);
  ASSERT_EQ(chain(t), (std::vector<uint64_t>{0x8464eee8f2cf3412, 0xead3c96aea607c7e}));
  say_payload(kA3);  // its parent is not known
  EXPECT_EQ(index_.stats().holdings, 0u);

  say_payload(kA1);
  EXPECT_EQ(match(t).score, 2.0);
  EXPECT_EQ(match(t).blocks_by_tier[0], 2u);
  say_payload(kA4);
  EXPECT_EQ(match(t).score, 2.0);
  EXPECT_EQ(match(t).blocks_by_tier[1], 2u);
  say_payload(kR1);  // of no group: that is not what was stored
  EXPECT_EQ(match(t).blocks_by_tier[0], 2u);
  say_payload(kR2);
  EXPECT_EQ(match(t).score, 1.8);
  EXPECT_EQ(match(t).blocks, 2u);
  EXPECT_EQ(match(t).blocks_by_tier[0], 1u);
  EXPECT_EQ(match(t).blocks_by_tier[1], 2u);
  EXPECT_EQ(match(chain(t, "other-model")).blocks, 0u);
  say_payload(kC1);
  EXPECT_EQ(match(t).blocks, 0u);
  say_payload(kA3);  // its parent is still known, but not held
  EXPECT_EQ(match(t).blocks, 0u);
  EXPECT_EQ(index_.holdings_of(kHolder), 1u);
}

TEST_F(PreciseFeedTest, CountsCopies) {
  const auto t = tokens(1, 16);
  say(stored({kE1}, t));
  say(stored({kE1}, t));
  say(removed({kE1}));
  EXPECT_EQ(match(t).blocks, 1u);
  say(removed({kE1}));
  EXPECT_EQ(match(t).blocks, 0u);
  say(removed({kE1}));
  EXPECT_EQ(match(t).blocks, 0u);
}

TEST_F(PreciseFeedTest, NamesLoraAdaptersInsteadOfTheModel) {
  Event event = stored({kE1}, tokens(1, 16));
  event.lora_name = "adapter-1";
  say(event);
  EXPECT_EQ(match(chain(tokens(1, 16), "adapter-1")).blocks, 1u);
  EXPECT_EQ(match(tokens(1, 16)).blocks, 0u);
}

TEST_F(PreciseFeedTest, TellsEnginesOfDifferentModelsApart) {
  say(stored({kE1}, tokens(1, 16)), "a");
  const Event same = stored({kE1}, tokens(1, 16));
  feed_.on_batch(other_, "b", {.events = {&same, 1}});
  say(removed({kE1}), "a");
  EXPECT_EQ(match(chain(tokens(1, 16), "a")).blocks, 0u);
  EXPECT_EQ(match(chain(tokens(1, 16), "b"), kOther).blocks, 1u);
}

TEST_F(PreciseFeedTest, HashesExtrasWithTheirBlocks) {
  const std::string_view image[] = {"imgA"};
  const kv_events::Extras extras[] = {image, {}};
  Event event = stored({kE1, kE2}, tokens(1, 32));
  event.extras = extras;
  say(event);
  const kv::Extra wanted[] = {{.block = 0, .text = "imgA"}};
  EXPECT_EQ(match(chain(tokens(1, 32), "test-model", wanted)).blocks, 2u);
  EXPECT_EQ(match(tokens(1, 32)).blocks, 0u);
}

TEST_F(PreciseFeedTest, FindsParentsOfOtherEndpoints) {
  const Event first = stored({kE1}, tokens(1, 16));
  feed_.on_batch(other_, "test-model", {.events = {&first, 1}});
  say(stored({kE2}, tokens(17, 32), kE1));
  EXPECT_EQ(match(tokens(1, 32)).blocks, 0u);
  say(stored({kE1}, tokens(1, 16)));
  EXPECT_EQ(match(tokens(1, 32)).blocks, 2u);
}

TEST_F(PreciseFeedTest, CountsBlocksOfSeveralGroupsOnce) {
  const auto t = tokens(1, 32);
  for (const uint32_t group : {0u, 1u}) {
    Event event = stored({kE1, kE2}, t);
    event.group = group;
    event.cache_kind = CacheKind::kFullAttention;
    say(event);
  }
  EXPECT_EQ(match(t).score, 2.0);
  EXPECT_EQ(match(t).blocks, 2u);
  EXPECT_EQ(match(t).blocks_by_tier[0], 2u);
}

TEST_F(PreciseFeedTest, LeavesOutGroupsThatDoNotMakeAPrefixReusable) {
  metric::Registry registry{1};
  const metric::Definition stores = {.name = "stores",
                                     .kind = metric::Kind::kCounter,
                                     .help = "s",
                                     .labels = {"cache_kind", "reason"},
                                     .buckets = {},
                                     .twins = {}};
  const metric::Definition removals = {.name = "removals",
                                       .kind = metric::Kind::kCounter,
                                       .help = "r",
                                       .labels = {"cache_kind", "reason"},
                                       .buckets = {},
                                       .twins = {}};
  PreciseFeed feed(
      index_, tiers_, keys_,
      {.skipped_stores = &registry.family(stores), .skipped_removals = &registry.family(removals)});
  feed.add_endpoint(publisher_.pod, kHolder);
  kv_events::Publisher publisher = publisher_;
  feed.on_joined(publisher);
  const auto tell = [&](const Event& event) {
    feed.on_batch(publisher, "test-model", {.events = {&event, 1}});
  };
  const auto t = tokens(1, 32);
  const Blocks blocks = {kE1, kE2};
  const auto in_group = [&](Event event, uint32_t group, CacheKind kind = CacheKind::kUnstated) {
    event.group = group;
    event.cache_kind = kind;
    return event;
  };
  tell(in_group(removed(blocks), 1));
  tell(in_group(stored(blocks, t), 1, CacheKind::kSlidingWindow));
  tell(in_group(removed(blocks), 1));
  tell(in_group(stored(blocks, t), 2));
  tell(in_group(stored(blocks, t), 1000, CacheKind::kFullAttention));
  Event sizeless = in_group(stored(blocks, t), 0, CacheKind::kFullAttention);
  sizeless.block_tokens = 0;
  tell(sizeless);
  sizeless.block_tokens = 15;
  tell(sizeless);
  EXPECT_EQ(index_.stats().holdings, 0u);
  tell(in_group(stored(blocks, t), 0));  // the kind is remembered
  EXPECT_EQ(match(t).blocks, 2u);
  const auto page = registry.render();
  for (const auto* line :
       {R"(removals{cache_kind="unknown",reason="unknown_group"} 1)",
        R"(removals{cache_kind="sliding_window",reason="unsupported_cache_kind"} 1)",
        R"(stores{cache_kind="sliding_window",reason="unsupported_cache_kind"} 1)",
        R"(stores{cache_kind="unknown",reason="unsupported_cache_kind"} 1)",
        R"(stores{cache_kind="unknown",reason="unknown_group"} 1)",
        R"(stores{cache_kind="full_attention",reason="invalid_block_size"} 1)",
        R"(stores{cache_kind="full_attention",reason="non_dense_block_span"} 1)"})
    EXPECT_NE(page.find(line), page.npos) << line << "\n" << page;
}

TEST_F(PreciseFeedTest, ForgetsAfterALossAndCountsReportsAnewOnce) {
  const auto t = tokens(1, 16);
  say(stored({kE1}, t));
  EXPECT_FALSE(feed_.publishers()[0].partial);
  feed_.on_lost(publisher_, 2);
  EXPECT_EQ(match(t).blocks, 0u);
  EXPECT_TRUE(feed_.publishers()[0].partial);
  say(stored({kE1}, t));  // reported again
  EXPECT_EQ(match(t).blocks, 1u);
  say(removed({kE1}));
  EXPECT_EQ(match(t).blocks, 0u);
  say({.type = Event::Type::kCleared});
  EXPECT_FALSE(feed_.publishers()[0].partial);
  feed_.on_lost(publisher_, 1);
  feed_.on_reset(publisher_);
  EXPECT_FALSE(feed_.publishers()[0].partial);
}

TEST_F(PreciseFeedTest, GoesOnBehindUnknownBlocksOfABatch) {
  const auto t = tokens(1, 48);
  const Event all = stored({1, 2, 3}, t);
  const Event first = stored({1}, tokens(1, 16));
  say(all);
  feed_.on_batch(other_, "test-model", {.events = {&first, 1}});
  say(removed({1, 99, 3}));
  EXPECT_EQ(match(t).blocks, 0u);
  EXPECT_EQ(index_.holdings_of(kHolder), 1u);
  say(first);
  EXPECT_EQ(match(t).blocks, 2u) << "the second was kept, the third was not";
  feed_.remove_endpoint(publisher_.pod, kHolder);
  EXPECT_EQ(index_.holdings_of(kHolder), 0u);
  EXPECT_EQ(match(chain(t), kOther).blocks, 1u);
}

TEST_F(PreciseFeedTest, FollowsMembership) {
  const auto t = tokens(1, 16);
  say(stored({kE1}, t));
  feed_.remove_endpoint(publisher_.pod, kHolder);
  EXPECT_EQ(match(t).blocks, 0u);
  say(stored({kE1}, t));  // late
  EXPECT_EQ(index_.stats().holdings, 0u);
  const kv::Holder successor{.slot = 3, .generation = 9};
  feed_.add_endpoint(publisher_.pod, successor);
  feed_.remove_endpoint(publisher_.pod, kHolder);  // of the one before
  say(stored({kE1}, t));
  EXPECT_EQ(match(chain(t), successor).blocks, 1u);
  feed_.on_left(publisher_);
  EXPECT_EQ(match(chain(t), successor).blocks, 0u);
  EXPECT_EQ(feed_.publishers().size(), 1u);
}

/// Spec 05 §12, V5.
TEST_F(PreciseFeed64, RealignsSmallEngineBlocks) {
  const auto t = tokens(1, 128);
  ASSERT_EQ(chain(t), (std::vector<uint64_t>{0xe92a570b9a4ec9f2, 0xf462171de342bcb9}));
  say(stored({1, 2, 3, 4, 5, 6, 7, 8}, t));
  EXPECT_EQ(match(t).blocks, 2u);
  say(removed({1}));
  EXPECT_EQ(match(t).blocks, 0u);
  EXPECT_EQ(match(std::vector<uint64_t>{0xf462171de342bcb9}).blocks, 1u);
}

TEST_F(PreciseFeed64, WaitsForTheRestOfABlock) {
  const auto t = tokens(1, 128);
  say(stored({1, 2, 3}, tokens(1, 48)));
  EXPECT_EQ(index_.stats().holdings, 0u);
  say(stored({4, 5}, tokens(49, 80), 3));
  EXPECT_EQ(match(t).blocks, 1u);
  say(stored({6, 7, 8, 9}, tokens(81, 144), 5));
  EXPECT_EQ(match(t).blocks, 2u);
  say(removed({5}));  // in front of the second block
  EXPECT_EQ(match(t).blocks, 1u);
  say(removed({3}));
  EXPECT_EQ(match(t).blocks, 0u);
}

TEST_F(PreciseFeed64, GoesOnWithinABlock) {
  say(stored({1, 2, 3, 4, 5, 6, 7, 8}, tokens(1, 128)));
  auto fork = tokens(1, 96);
  const auto rest = tokens(1001, 1032);
  fork.insert(fork.end(), rest.begin(), rest.end());
  say(stored({107, 108}, rest, 6));
  EXPECT_EQ(match(fork).blocks, 2u);
  EXPECT_EQ(match(tokens(1, 128)).blocks, 2u);
}

TEST_F(PreciseFeed64, FillsBlocksWhileDecoding) {
  const auto t = tokens(1, 256);
  uint64_t block = 0;
  for (uint32_t at = 1; at <= 256; at += 16, ++block)
    say(stored({block + 1}, tokens(at, at + 15), block));
  EXPECT_EQ(match(t).blocks, 4u);
}

TEST_F(PreciseFeed64, CarriesExtras) {
  const std::string_view image[] = {"imgA"};
  const kv_events::Extras extras[] = {image};
  Event first = stored({1}, tokens(1, 16));
  first.extras = extras;
  say(first);
  Event second = stored({2}, tokens(17, 32), 1);
  second.extras = extras;
  say(second);
  say(stored({3, 4}, tokens(33, 64), 2));
  const kv::Extra wanted[] = {{.block = 0, .text = "imgA"}};
  EXPECT_EQ(match(chain(tokens(1, 64), "test-model", wanted)).blocks, 1u);
}

TEST_F(PreciseFeedTest, SplitsLargeEngineBlocks) {
  say(stored({1, 2}, tokens(1, 64)));
  EXPECT_EQ(match(tokens(1, 64)).blocks, 4u);
  say(stored({3}, tokens(65, 96), 2));
  EXPECT_EQ(match(tokens(1, 96)).blocks, 6u);
  say(removed({3}));
  say(removed({2}));
  EXPECT_EQ(match(tokens(1, 96)).blocks, 2u);
}

TEST_F(PreciseFeedTest, SaltsTheFirstBlockOnly) {
  const std::string_view salt[] = {"tenant-1"};
  const kv_events::Extras extras[] = {salt};
  Event event = stored({1}, tokens(1, 64));
  event.extras = extras;
  event.salted = true;
  say(event);
  const auto wanted = kv::request_extras({}, "tenant-1", 64, 16);
  EXPECT_EQ(match(chain(tokens(1, 64), "test-model", wanted)).blocks, 4u);
}

TEST_F(PreciseFeed64, PutsTheSaltBehindImages) {
  const std::string_view with_salt[] = {"imgA", "tenant-1"};
  const std::string_view image[] = {"imgB"};
  const kv_events::Extras extras[] = {with_salt, image};
  Event event = stored({1, 2}, tokens(1, 32));
  event.extras = extras;
  event.salted = true;
  say(event);
  say(stored({3, 4}, tokens(33, 64), 2));
  const std::vector<kv::MediaItem> items = {{"imgA", 2, 4}, {"imgB", 20, 8}};
  const auto wanted = kv::request_extras(items, "tenant-1", 64, 64);
  EXPECT_EQ(match(chain(tokens(1, 64), "test-model", wanted)).blocks, 1u);
}

TEST_F(PreciseFeedTest, FitsBlocksOfAnySize) {
  for (const uint32_t size : {1u, 3u, 12u, 16u, 20u, 24u, 40u, 528u}) {
    say({.type = Event::Type::kCleared});
    uint64_t block = size * 100'000;
    uint64_t parent = 0;
    for (uint32_t at = 1; at <= 1200; at += size) {
      ++block;
      say(stored({block}, tokens(at, at + size - 1), parent));
      parent = block;
    }
    EXPECT_GE(match(tokens(1, 1200)).blocks, 74u) << size;
    EXPECT_EQ(index_.check(), "");
  }
}

TEST_F(PreciseFeedTest, SurvivesOddEvents) {
  say(stored({}, {}));
  say(stored({}, tokens(1, 16)));
  say(stored({1, 2, 3}, tokens(1, 32)));
  say(stored({4, 5}, tokens(33, 48), 3));
  say(stored({0}, tokens(1, 16)));
  Event parentless = stored({9}, tokens(1, 7));
  say(parentless);
  say(stored({10, 11}, tokens(8, 70), 9));
  say(removed({}));
  EXPECT_EQ(index_.check(), "");
}

}  // namespace
}  // namespace llmd::kv_precise
