#include "kv/approx_index.h"

#include "base/rng.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <list>
#include <map>
#include <set>
#include <thread>
#include <vector>

namespace llmd::kv {
namespace {

using Chain = std::vector<uint64_t>;

/// Blocks `from` … `from + n - 1` of family `family`, scattered over the hash space.
Chain chain_of(uint64_t family, size_t n, size_t from = 0) {
  Chain chain;
  for (size_t i = from; i < from + n; ++i) {
    Rng mix(family * 1'000'003 + i);
    chain.push_back(mix.next());
  }
  return chain;
}

uint32_t match_of(const ApproxIndex& index, uint32_t slot, const Chain& chain) {
  std::vector<uint32_t> matched(slot + 1);
  index.match(chain, matched);
  return matched[slot];
}

TEST(ApproxIndex, MatchesTheCommonPrefix) {
  ApproxIndex index;
  Chain served = chain_of(1, 4);
  index.commit({.slot = 0, .generation = 1, .capacity = 100}, served);
  Chain asked = {served[0], served[1], 999};
  EXPECT_EQ(match_of(index, 0, asked), 2u);
  EXPECT_EQ(match_of(index, 1, asked), 0u);
  EXPECT_EQ(index.check(), "");
}

TEST(ApproxIndex, FindsWhereEachHolderEnds) {
  for (const size_t blocks : {1, 2, 3, 7, 64, 100}) {
    SCOPED_TRACE(blocks);
    ApproxIndex index;
    Rng rng(blocks);
    const Chain whole = chain_of(1, blocks);
    std::vector<uint32_t> held(150);
    for (uint32_t slot = 0; slot < held.size(); ++slot) {
      held[slot] = static_cast<uint32_t>(rng.below(blocks + 1));
      index.commit({.slot = slot, .generation = 1, .capacity = 100},
                   std::span(whole).first(held[slot]));
    }
    std::vector<uint32_t> matched(held.size());
    index.match(whole, matched);
    EXPECT_EQ(matched, held);
  }
}

TEST(ApproxIndex, CountsBlocksOfAGeneration) {
  ApproxIndex index;
  index.commit({.slot = 3, .generation = 7, .capacity = 3}, chain_of(1, 4));
  EXPECT_EQ(index.blocks_of(3, 7), 3u);
  EXPECT_EQ(index.blocks_of(3, 8), 0u);
  EXPECT_EQ(index.blocks_of(4, 7), 0u);
}

TEST(ApproxIndex, AddsToWhatIsThereAndLeavesOutSlotsBeyond) {
  ApproxIndex index;
  const Chain chain = chain_of(1, 5);
  for (const uint32_t slot : {0u, 1u, 70u})
    index.commit({.slot = slot, .generation = 1, .capacity = 100}, chain);
  std::vector<uint32_t> matched = {10, 20, 30};
  index.match(chain, matched);
  EXPECT_EQ(matched, (std::vector<uint32_t>{15, 25, 30}));
}

TEST(ApproxIndex, EvictsTheEndOfTheOldestChainFirst) {
  ApproxIndex index;
  const BlockOwner owner{.slot = 0, .generation = 1, .capacity = 6};
  const Chain old_chain = chain_of(1, 4), new_chain = chain_of(2, 4);
  index.commit(owner, old_chain);
  index.commit(owner, new_chain);
  EXPECT_EQ(match_of(index, 0, new_chain), 4u);
  EXPECT_EQ(match_of(index, 0, old_chain), 2u);
  EXPECT_EQ(index.check(), "");
}

TEST(ApproxIndex, CommitMakesRecentAndMatchDoesNot) {
  ApproxIndex index;
  const BlockOwner owner{.slot = 0, .generation = 1, .capacity = 4};
  const Chain a = chain_of(1, 2), b = chain_of(2, 2), c = chain_of(3, 2);
  index.commit(owner, a);
  index.commit(owner, b);
  index.commit(owner, a);
  EXPECT_EQ(match_of(index, 0, b), 2u);
  index.commit(owner, c);
  EXPECT_EQ(match_of(index, 0, a), 2u);
  EXPECT_EQ(match_of(index, 0, b), 0u);
}

TEST(ApproxIndex, ChainBeyondCapacityKeepsItsBeginningAndNothingStale) {
  ApproxIndex index;
  const Chain chain = chain_of(1, 50);
  index.commit({.slot = 0, .generation = 1, .capacity = 8}, chain);
  EXPECT_EQ(match_of(index, 0, chain), 8u);
  EXPECT_EQ(index.size(), 8u);
  EXPECT_EQ(index.check(), "");
}

TEST(ApproxIndex, PurgeForgetsOneEndpointForGood) {
  ApproxIndex index;
  const Chain chain = chain_of(1, 5);
  for (const uint32_t slot : {0u, 1u})
    index.commit({.slot = slot, .generation = 7, .capacity = 100}, chain);
  index.purge(0, 7);
  EXPECT_EQ(match_of(index, 0, chain), 0u);
  EXPECT_EQ(match_of(index, 1, chain), 5u);
  index.commit({.slot = 0, .generation = 7, .capacity = 100}, chain);  // late
  EXPECT_EQ(match_of(index, 0, chain), 0u);
  index.commit({.slot = 0, .generation = 8, .capacity = 100}, chain);
  EXPECT_EQ(match_of(index, 0, chain), 5u);
  index.purge(0, 7);  // late
  EXPECT_EQ(match_of(index, 0, chain), 5u);
  EXPECT_EQ(index.check(), "");
}

TEST(ApproxIndex, LateCommitAfterPurgeOfAnEndpointNeverSeenIsDropped) {
  ApproxIndex index;
  index.purge(5, 3);
  index.commit({.slot = 5, .generation = 3, .capacity = 10}, chain_of(1, 2));
  EXPECT_EQ(index.size(), 0u);
}

TEST(ApproxIndex, NewGenerationStartsEmpty) {
  ApproxIndex index;
  index.commit({.slot = 0, .generation = 1, .capacity = 10}, chain_of(1, 3));
  index.commit({.slot = 0, .generation = 2, .capacity = 10}, chain_of(2, 3));
  EXPECT_EQ(match_of(index, 0, chain_of(1, 3)), 0u);
  EXPECT_EQ(index.size(), 3u);
  index.commit({.slot = 0, .generation = 1, .capacity = 10}, chain_of(1, 3));  // late
  EXPECT_EQ(index.size(), 3u);
}

TEST(ApproxIndex, HashZeroIsABlockLikeAnyOther) {
  ApproxIndex index;
  index.commit({.slot = 0, .generation = 1, .capacity = 10}, Chain{0});
  EXPECT_EQ(match_of(index, 0, Chain{0}), 1u);
}

TEST(ApproxIndex, SmallFleetsPayForFewSlots) {
  ApproxIndex small, large;
  for (uint64_t family = 0; family < 200; ++family) {
    small.commit({.slot = 3, .generation = 1, .capacity = 100'000}, chain_of(family, 100));
    large.commit({.slot = 4095, .generation = 1, .capacity = 100'000}, chain_of(family, 100));
  }
  EXPECT_LT(small.table_bytes(), 20'000 * 16 * 5);
  EXPECT_GT(large.table_bytes(), small.table_bytes() * 10);
  EXPECT_EQ(match_of(large, 4095, chain_of(7, 100)), 100u);
  EXPECT_EQ(large.check(), "");
}

/// Multiples of a power of two meet in one bucket of one shard for any table that fits in memory.
Chain made_to_collide() {
  Chain chain;
  for (uint64_t i = 1; i <= 400; ++i) chain.push_back(i << 44);
  return chain;
}

TEST(ApproxIndex, HoldsHashesMadeToCollideForWhoeverDoesNotKnowTheSecret) {
  ApproxIndex index;
  index.commit({.slot = 0, .generation = 1, .capacity = 1000}, made_to_collide());
  EXPECT_EQ(index.refused(), 0u);
  EXPECT_EQ(index.size(), 400u);
  EXPECT_EQ(index.check(), "");
}

TEST(ApproxIndex, RefusesKeysThatCollideAllTheSame) {
  ApproxIndex index(HashSecret{0, 0});  // keys are the blocks themselves
  index.commit({.slot = 0, .generation = 1, .capacity = 1000}, made_to_collide());
  EXPECT_GT(index.refused(), 0u);
  EXPECT_LT(index.table_bytes(), 4u << 20);
  EXPECT_EQ(index.check(), "");
}

/// The same relation, kept in the obvious way.
class Oracle {
 public:
  void commit(uint32_t slot, size_t capacity, const Chain& chain) {
    auto& lru = lists_[slot];
    for (size_t i = std::min(chain.size(), capacity); i-- > 0;) {
      std::erase(lru, chain[i]);
      lru.push_front(chain[i]);
      if (lru.size() > capacity) lru.pop_back();
    }
  }
  void purge(uint32_t slot) { lists_.erase(slot); }
  uint32_t match(uint32_t slot, const Chain& chain) const {
    const auto at = lists_.find(slot);
    uint32_t n = 0;
    while (at != lists_.end() && n < chain.size() &&
           std::ranges::find(at->second, chain[n]) != at->second.end())
      ++n;
    return n;
  }
  size_t size() const {
    size_t n = 0;
    for (const auto& [slot, lru] : lists_) n += lru.size();
    return n;
  }

 private:
  std::map<uint32_t, std::list<uint64_t>> lists_;
};

TEST(ApproxIndex, AgreesWithANaiveOneUnderRandomWork) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    ApproxIndex index;
    Oracle oracle;
    const std::vector<uint32_t> slots = {0, 1, 2, 63, 64, 150, 300, 1000};
    std::map<uint32_t, uint64_t> generation;
    for (const uint32_t slot : slots) generation[slot] = 1;
    const auto random_chain = [&] {
      // A family's trunk, sometimes with a branch of its own. The branch's blocks stand for the
      // trunk too.
      const uint64_t family = rng.below(12);
      const uint64_t length = rng.below(20);
      Chain chain = chain_of(family, length);
      const Chain branch =
          chain_of(100 + 1000 * (family * 20 + length) + rng.below(4), rng.below(10));
      chain.insert(chain.end(), branch.begin(), branch.end());
      return chain;
    };
    for (int step = 0; step < 1500; ++step) {
      const uint32_t slot = slots[rng.below(slots.size())];
      if (rng.below(50) == 0) {
        index.purge(slot, generation[slot]++);
        oracle.purge(slot);
      } else {
        const size_t capacity = 16 + slot % 40;
        const Chain chain = random_chain();
        index.commit({.slot = slot, .generation = generation[slot], .capacity = capacity}, chain);
        oracle.commit(slot, capacity, chain);
      }
      const Chain asked = random_chain();
      std::vector<uint32_t> matched(slots.back() + 1);
      index.match(asked, matched);
      for (const uint32_t s : slots) ASSERT_EQ(matched[s], oracle.match(s, asked)) << step;
      if (step % 100 == 0) {
        ASSERT_EQ(index.check(), "") << step;
      }
    }
    EXPECT_EQ(index.size(), oracle.size());
    EXPECT_EQ(index.check(), "");
  }
}

TEST(ApproxIndex, ReadersBesideWritersSeeNoFalseHolder) {
  ApproxIndex index;
  constexpr uint32_t kSlots = 3;
  constexpr int kRounds = 400;
  std::atomic<int> writing{2};
  std::atomic<int> false_holders{0};
  const auto write = [&](uint64_t seed) {
    Rng rng(seed);
    for (int round = 0; round < kRounds; ++round) {
      const auto slot = static_cast<uint32_t>(rng.below(kSlots)) * 64;
      index.commit({.slot = slot, .generation = 1, .capacity = 300},
                   chain_of(slot * 100 + rng.below(20), 40));
    }
    for (uint64_t generation = 1; generation < 5; ++generation) index.purge(0, generation);
    writing.fetch_sub(1);
  };
  const auto read = [&] {
    Rng rng(9);
    while (writing.load() > 0) {
      const auto slot = static_cast<uint32_t>(rng.below(kSlots)) * 64;
      std::vector<uint32_t> matched(kSlots * 64);
      index.match(chain_of(slot * 100 + rng.below(20), 40), matched);
      matched[slot] = 0;
      for (const uint32_t n : matched)
        if (n != 0) false_holders.fetch_add(1);
    }
  };
  std::thread a(write, 1), b(write, 2), c(read);
  a.join();
  b.join();
  c.join();
  EXPECT_EQ(false_holders.load(), 0);
  EXPECT_EQ(index.check(), "");
}

}  // namespace
}  // namespace llmd::kv
