#include "base/arena.h"

#include "base/rng.h"

#include <gtest/gtest.h>

namespace llmd {
namespace {

TEST(Arena, AlignsEveryAllocation) {
  Arena arena(64);
  for (const size_t alignment : {1, 2, 4, 8, 16, 64})
    for (int i = 0; i < 5; ++i)
      EXPECT_EQ(reinterpret_cast<uintptr_t>(arena.allocate(3, alignment)) % alignment, 0u);
}

TEST(Arena, KeepsContentsApart) {
  Arena arena(32);
  Rng rng(7);
  std::vector<std::pair<std::string, std::string_view>> texts;
  for (int i = 0; i < 500; ++i) {
    std::string text(rng.below(200), static_cast<char>('a' + rng.below(26)));
    const auto copy = arena.copy(text);
    texts.emplace_back(std::move(text), copy);
  }
  for (const auto& [text, copy] : texts) EXPECT_EQ(text, copy);
}

TEST(Arena, ValueInitialisesArrays) {
  Arena arena(64);
  std::memset(arena.allocate(32, 1), 0xFF, 32);
  arena.reset();
  for (const int value : arena.array<int>(8)) EXPECT_EQ(value, 0);
}

TEST(Arena, MakesAggregates) {
  struct Pair {
    int a;
    double b;
  };
  Arena arena;
  const auto* pair = arena.make<Pair>(1, 2.5);
  EXPECT_EQ(pair->a, 1);
  EXPECT_EQ(pair->b, 2.5);
}

TEST(Arena, ResetKeepsTheLargestChunk) {
  Arena arena(128);
  arena.allocate(16, 16);
  arena.allocate(4000, 8);
  EXPECT_GT(arena.extra_chunks(), 0u);
  arena.reset();
  EXPECT_EQ(arena.extra_chunks(), 0u);
  EXPECT_GE(arena.capacity(), 4000u);
  arena.allocate(16, 16);
  arena.allocate(3900, 8);
  EXPECT_EQ(arena.extra_chunks(), 0u) << "the second use fits without allocating";
}

TEST(Arena, ResetGivesUpChunksTooLargeToKeep) {
  Arena arena(128);
  arena.allocate(Arena::kRetainedBytesMax + 1, 8);
  arena.reset();
  EXPECT_EQ(arena.capacity(), 128u);
}

TEST(Arena, DoublesItsChunks) {
  Arena arena(64);
  for (int i = 0; i < 1000; ++i) arena.allocate(64, 8);
  EXPECT_LT(arena.extra_chunks(), 12u) << "64 kB in chunks that double";
}

TEST(Arena, CopiesNothingForEmptyText) {
  Arena arena;
  EXPECT_TRUE(arena.copy("").empty());
}

}  // namespace
}  // namespace llmd
