#include "sim/prefix_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>

namespace llmd::sim {
namespace {

struct Recorder final : CacheListener {
  void on_removed(uint64_t key) override { log.push_back("-" + name(key)); }
  void on_stored(const Stored& run) override {
    std::string line = "+" + (run.parent ? name(run.parent) : "0") + ":";
    for (const uint64_t key : run.keys) line += name(key);
    EXPECT_EQ(run.tokens.size() % run.keys.size(), 0u);
    log.push_back(line + "/" + std::to_string(run.tokens.size()));
  }
  void on_cleared() override { log.push_back("clear"); }

  std::string name(uint64_t key) {
    const auto at = std::find(seen.begin(), seen.end(), key) - seen.begin();
    if (at == static_cast<long>(seen.size())) seen.push_back(key);
    return std::string(1, static_cast<char>('a' + at));
  }

  std::vector<uint64_t> seen;
  std::vector<std::string> log;
};

struct Prompt {
  Prompt(const PrefixCache& cache, uint32_t first, size_t n, uint32_t tail_first = 0,
         size_t shared = SIZE_MAX, std::string_view owner = "m")
      : tokens(n) {
    for (size_t i = 0; i < n; ++i)
      tokens[i] = static_cast<uint32_t>(i < shared ? first + i : tail_first + i);
    cache.block_keys(tokens, owner, keys);
  }
  std::vector<uint32_t> tokens;
  std::vector<uint64_t> keys;
};

PrefixCache::Hit run(PrefixCache& cache, const Prompt& p, uint32_t owner = 0) {
  const auto hit = cache.acquire(p.keys, p.tokens, owner);
  if (hit.stored) cache.release(p.keys);
  return hit;
}

TEST(PrefixCache, FollowsTheReferenceTranscript) {
  Recorder events;
  PrefixCache cache(4, 8, &events);
  const Prompt first(cache, 100, 20), third(cache, 100, 24, 500, 8), fourth(cache, 900, 8);

  EXPECT_EQ(run(cache, first).cached_blocks, 0u);
  EXPECT_EQ(run(cache, first).cached_blocks, 2u);
  EXPECT_EQ(run(cache, third).cached_blocks, 1u);
  EXPECT_EQ(cache.resident_blocks(), 4u);
  EXPECT_EQ(run(cache, fourth).cached_blocks, 0u);
  EXPECT_EQ(events.log, (std::vector<std::string>{"+0:ab/16", "+a:cd/16", "-b", "+0:e/8"}));
}

TEST(PrefixCache, EvictsTheTailOfAPromptBeforeItsHead) {
  PrefixCache cache(4, 8);
  const Prompt a(cache, 0, 32), b(cache, 1000, 8);
  run(cache, a);
  run(cache, b);
  EXPECT_EQ(run(cache, a).cached_blocks, 3u);
}

TEST(PrefixCache, CountsOnlyTheContiguousPrefix) {
  Recorder events;
  PrefixCache cache(4, 8, &events);
  const Prompt two(cache, 0, 16);
  run(cache, two);
  // Holding only the second key leaves a prompt whose first block can be evicted.
  cache.acquire(std::span(two.keys).subspan(1), std::span(two.tokens).subspan(8), 0);
  run(cache, Prompt(cache, 1000, 24));
  EXPECT_EQ(cache.acquire(two.keys, two.tokens, 0).cached_blocks, 0u);
  EXPECT_EQ(events.log.back(), "+0:a/8");
}

TEST(PrefixCache, RefusesWhatDoesNotFitBesideUsedBlocks) {
  PrefixCache cache(4, 8);
  const Prompt big(cache, 0, 24), other(cache, 1000, 16), huge(cache, 2000, 40);
  ASSERT_TRUE(cache.acquire(big.keys, big.tokens, 0).stored);
  EXPECT_FALSE(cache.acquire(other.keys, other.tokens, 0).stored);
  EXPECT_EQ(cache.used(), 3u);
  EXPECT_DOUBLE_EQ(cache.usage(), 0.75);
  cache.release(big.keys);
  EXPECT_TRUE(run(cache, other).stored);
  EXPECT_FALSE(run(cache, huge).stored);
}

TEST(PrefixCache, SharesHeldBlocks) {
  PrefixCache cache(4, 8);
  const Prompt p(cache, 0, 32);
  cache.acquire(p.keys, p.tokens, 0);
  EXPECT_EQ(cache.acquire(p.keys, p.tokens, 0).cached_blocks, 4u);
  EXPECT_EQ(cache.used(), 4u);
  cache.release(p.keys);
  EXPECT_EQ(cache.used(), 4u);
  cache.release(p.keys);
  EXPECT_EQ(cache.used(), 0u);
}

TEST(PrefixCache, PrefersBlocksOfAbsentAdaptersAsVictims) {
  Recorder events;
  PrefixCache cache(2, 8, &events);
  const Prompt base(cache, 0, 8), adapter(cache, 0, 8, 0, SIZE_MAX, "lora");
  EXPECT_NE(base.keys, adapter.keys);
  run(cache, base, 0);
  run(cache, adapter, 1);
  cache.set_resident(1, false);
  run(cache, Prompt(cache, 1000, 8), 0);
  EXPECT_EQ(events.log[2], "-b");
}

TEST(PrefixCache, ResetsOnlyWhenIdle) {
  Recorder events;
  PrefixCache cache(4, 8, &events);
  const Prompt p(cache, 0, 16);
  cache.acquire(p.keys, p.tokens, 0);
  EXPECT_FALSE(cache.reset());
  cache.release(p.keys);
  EXPECT_TRUE(cache.reset());
  EXPECT_EQ(cache.resident_blocks(), 0u);
  EXPECT_EQ(events.log.back(), "clear");
  EXPECT_EQ(run(cache, p).cached_blocks, 0u);
}

}  // namespace
}  // namespace llmd::sim
