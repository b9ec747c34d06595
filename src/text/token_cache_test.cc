#include "token_cache.h"

#include <gtest/gtest.h>

#include <string>

namespace llmd::text {
namespace {

/// A cache with room for `entries` texts of one byte and one token.
struct Bench {
  explicit Bench(size_t entries) : cache(entries * (TokenCache::kEntryBytes + 5), metrics) {}
  bool has(std::string_view text) {
    Tokens ignored;
    return cache.find(text, ignored);
  }
  void put(std::string_view text, uint32_t token = 7) { cache.put(text, std::array{token}); }
  bool page_has(std::string_view line) { return registry.render().contains(line); }

  metric::Registry registry{1};
  Metrics metrics = Metrics::of(registry);
  TokenCache cache;
};

TEST(TokenCache, AppendsWhatWasPut) {
  Bench bench(2);
  bench.put("a");
  Tokens out = {1};
  EXPECT_TRUE(bench.cache.find("a", out));
  EXPECT_EQ(out, (Tokens{1, 7}));
  EXPECT_FALSE(bench.cache.find("b", out));
  EXPECT_EQ(out.size(), 2u);
}

TEST(TokenCache, DropsWhatWasUsedLongestAgo) {
  Bench bench(2);
  bench.put("a");
  bench.put("b");
  EXPECT_TRUE(bench.has("a"));
  bench.put("c");
  EXPECT_TRUE(bench.has("a"));
  EXPECT_FALSE(bench.has("b"));
  EXPECT_TRUE(bench.has("c"));
  EXPECT_TRUE(bench.page_has("llmd_tokenizer_cache_evictions_total 1"));
}

TEST(TokenCache, CountsItsMemory) {
  Bench bench(2);
  const auto bytes = [](size_t entries) {
    return "llmd_tokenizer_cache_bytes " + std::to_string(entries * (TokenCache::kEntryBytes + 5));
  };
  for (const char* text : {"a", "a", "b", "c"}) bench.put(text);
  EXPECT_TRUE(bench.page_has(bytes(2))) << bench.registry.render();
  {
    TokenCache other(1000, bench.metrics);
  }
  EXPECT_TRUE(bench.page_has(bytes(2)));
  bench.put(std::string(1000, 'x'));
  EXPECT_FALSE(bench.has(std::string(1000, 'x'))) << "larger than the cache";
  EXPECT_TRUE(bench.has("c"));
}

}  // namespace
}  // namespace llmd::text
