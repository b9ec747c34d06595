#include "block_table.h"

#include "base/rng.h"

#include <gtest/gtest.h>

#include <vector>

namespace llmd::kv {
namespace {

/// Numbers have hashes of their own, so that a table can be asked without nodes.
struct HashOf {
  uint64_t operator()(uint32_t number) const {
    uint64_t x = number * 0x9e3779b97f4a7c15;
    x = (x ^ x >> 32) * 0xd6e8feb86659fd93;
    return x ^ x >> 32;
  }
  void prefetch(uint32_t) const {}
};

uint32_t find(const BlockTable& table, uint32_t number) {
  return table.find(HashOf{}(number), [&](uint32_t other) { return other == number; });
}

TEST(BlockTable, KeepsNumbersNearTheirHomesHoweverLongItChanges) {
  Epochs epochs;
  BlockTable table(epochs);
  Rng rng(1);
  uint32_t next = 1;
  std::vector<uint32_t> there;
  for (; next <= 3000; ++next) {
    table.insert(HashOf{}(next), next, HashOf{});
    there.push_back(next);
  }
  const size_t bytes = table.bytes();
  for (; next < 100'000; ++next) {
    uint32_t& number = there[rng.below(there.size())];
    table.erase(HashOf{}(number), number);
    number = next;
    table.insert(HashOf{}(number), number, HashOf{}, false);
  }
  // Of the invariants: no bucket has room that a number behind it could have.
  EXPECT_EQ(table.check([](uint32_t) {}, HashOf{}), "");
  EXPECT_EQ(table.bytes(), bytes);
  for (const uint32_t number : there) EXPECT_EQ(find(table, number), number);
  EXPECT_EQ(find(table, next), 0U);
}

TEST(BlockTable, FindsWhatMovesBehindASearch) {
  Epochs epochs;
  BlockTable table(epochs);
  const auto hash_of = [](uint32_t number) -> uint64_t { return number << 8; };  // all of one home
  for (uint32_t number = 1; number <= 10; ++number) table.insert(hash_of(number), number, HashOf{});
  table.insert(hash_of(10), 11, HashOf{});  // must stand in the next bucket

  std::vector<uint32_t> asked;
  const uint32_t found = table.find(hash_of(10), [&](uint32_t number) {
    // The search has been at the first slot, which becomes free, and 11 goes there.
    if (asked.empty()) table.erase(hash_of(1), 1);
    asked.push_back(number);
    return number == 11;
  });
  EXPECT_EQ(found, 11U);
  EXPECT_EQ(asked, (std::vector<uint32_t>{10, 11}));
}

}  // namespace
}  // namespace llmd::kv
