#include "kv/precise_index.h"

#include "base/rng.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <thread>
#include <vector>

namespace llmd::kv {
namespace {

using Keys = std::vector<uint64_t>;
using Held = PreciseIndex::Held;

constexpr Place kGpu{.tier = 0};
constexpr Place kCpu{.tier = 1};
constexpr Place kGpuGroup0{.tier = 0, .group = 0};
constexpr Place kSpeculative{.tier = 2, .speculative = true};
constexpr TierWeights kWeights = [] {
  TierWeights weights;
  weights.fill(1);
  weights[1] = 0.8;
  return weights;
}();

/// Blocks `from` … `from + n - 1` of family `family`, scattered over the hash space.
Keys chain_of(uint64_t family, size_t n, size_t from = 0) {
  Keys chain;
  for (size_t i = from; i < from + n; ++i) chain.push_back(Rng(family * 1'000'003 + i).next());
  return chain;
}
/// What an engine calls them.
Keys engine(const Keys& keys, uint64_t seed = 1) {
  Keys out;
  for (const uint64_t key : keys) out.push_back(key * 0x9e3779b97f4a7c15 + seed);
  return out;
}
Holder at(uint32_t slot, uint64_t generation = 1) {
  return {.slot = slot, .generation = generation};
}
void store(PreciseIndex& index, uint32_t slot, const Keys& keys, const Place& place = kGpu) {
  index.store({.holder = at(slot), .place = place, .keys = keys, .engine_keys = engine(keys)});
}
PrefixHit match(const PreciseIndex& index, uint32_t slot, const Keys& chain,
                const TierWeights& weights = kWeights) {
  const Holder holder = at(slot);
  PrefixHit hit;
  index.match(chain, std::span(&holder, 1), weights, std::span(&hit, 1));
  return hit;
}

TEST(PreciseIndex, MatchesTheCommonPrefix) {
  PreciseIndex index;
  const Keys chain = chain_of(1, 4);
  store(index, 3, chain);
  EXPECT_EQ(match(index, 3, chain).blocks, 4u);
  EXPECT_EQ(match(index, 3, {chain[0], chain[1], 999, chain[3]}).blocks, 2u);
  EXPECT_EQ(match(index, 3, {999}).blocks, 0u);
  EXPECT_EQ(match(index, 3, {}).blocks, 0u);
  EXPECT_EQ(match(index, 4, chain).blocks, 0u);
  EXPECT_EQ(index.check(), "");
}

TEST(PreciseIndex, AddsToWhatIsThere) {
  PreciseIndex index;
  const Keys chain = chain_of(1, 3);
  store(index, 0, chain);
  const Holder holder = at(0);
  PrefixHit hit{.score = 10, .blocks = 20};
  index.match(chain, std::span(&holder, 1), kWeights, std::span(&hit, 1));
  EXPECT_EQ(hit.score, 13);
  EXPECT_EQ(hit.blocks, 23u);
}

/// Spec 05 §12, V4, with two keys.
TEST(PreciseIndex, FollowsTheScenario) {
  PreciseIndex index;
  const Keys k = chain_of(1, 2);
  const Keys e = engine(k);
  const auto blocks = [&](size_t tier) { return match(index, 0, k).blocks_by_tier[tier]; };
  store(index, 0, k, kGpuGroup0);  // A1
  EXPECT_EQ(match(index, 0, k).score, 2);
  EXPECT_EQ(blocks(0), 2u);
  index.store({.holder = at(0), .place = kCpu, .keys = k});  // A4
  EXPECT_EQ(match(index, 0, k).score, 2);
  EXPECT_EQ(blocks(0), 2u);
  EXPECT_EQ(blocks(1), 2u);
  index.remove(at(0), kGpu, e);  // R1
  EXPECT_EQ(blocks(0), 2u) << "an entry without group is not the stored one";
  index.remove(at(0), kGpuGroup0, Keys{e[1]});  // R2
  EXPECT_EQ(match(index, 0, k).score, 1.8);
  EXPECT_EQ(match(index, 0, k).blocks, 2u);
  EXPECT_EQ(blocks(0), 1u);
  EXPECT_EQ(blocks(1), 2u);
  index.clear(at(0));  // C1
  EXPECT_EQ(match(index, 0, k), PrefixHit{});
  EXPECT_EQ(index.request_key(at(0), e[0]), k[0]) << "the mapping survives";
  index.store({.holder = at(0),
               .place = kGpu,
               .parent = k[0],
               .keys = Keys{k[1]},
               .engine_keys = Keys{e[1]}});  // A3
  EXPECT_EQ(match(index, 0, k).blocks, 0u);
  EXPECT_EQ(index.holders_of(k[1]), (std::vector<Held>{{0, kGpu, 1}}));
  EXPECT_EQ(index.check(), "");
}

TEST(PreciseIndex, RoundsScoresAsSumsInTheOrderOfTheChain) {
  PreciseIndex index;
  const Keys chain = chain_of(1, 1000);
  store(index, 0, chain, kCpu);
  for (const auto& [blocks, expected] : std::map<size_t, int>{{1, 0},
                                                              {2, 1},
                                                              {3, 2},
                                                              {5, 4},
                                                              {6, 4},
                                                              {8, 6},
                                                              {10, 7},
                                                              {15, 12},
                                                              {100, 79},
                                                              {1000, 799}})
    EXPECT_EQ(static_cast<int>(match(index, 0, chain_of(1, blocks)).score), expected) << blocks;
}

TEST(PreciseIndex, TakesTheBestTierOfABlockAndNothingBehindAGap) {
  PreciseIndex index;
  TierWeights weights = kWeights;
  weights[1] = 0.5;
  const Keys k = chain_of(1, 6);
  store(index, 0, {k[0], k[1], k[2]});
  store(index, 0, {k[2]}, kCpu);
  store(index, 0, {k[5]});
  store(index, 1, {k[3], k[4]});
  EXPECT_EQ(match(index, 0, k, weights).score, 3);
  EXPECT_EQ(match(index, 1, k, weights), PrefixHit{});
}

TEST(PreciseIndex, CountsSpeculativeBlocksApart) {
  PreciseIndex index;
  const Keys k = chain_of(1, 2);
  index.store({.holder = at(0), .place = kSpeculative, .keys = k});
  store(index, 0, {k[0]});
  const PrefixHit hit = match(index, 0, k);
  EXPECT_EQ(hit.speculative_blocks, 2u);
  EXPECT_EQ(hit.blocks_by_tier[0], 1u);
  EXPECT_EQ(hit.blocks_by_tier[2], 0u);
  EXPECT_EQ(hit.score, 2);
  index.remove_keys(at(0), kSpeculative, k);
  EXPECT_EQ(match(index, 0, k).blocks, 1u);
}

TEST(PreciseIndex, CountsStoresOfOneBlock) {
  PreciseIndex index;
  const Keys k = chain_of(1, 1);
  store(index, 0, k);
  store(index, 0, k);
  index.remove(at(0), kGpu, engine(k));
  EXPECT_EQ(match(index, 0, k).blocks, 1u);
  index.remove(at(0), kGpu, engine(k));
  EXPECT_EQ(match(index, 0, k).blocks, 0u);
  index.remove(at(0), kGpu, engine(k));
  EXPECT_EQ(index.check(), "");
}

TEST(PreciseIndex, DoesNotCountReportsOfWhatIsThere) {
  PreciseIndex index;
  const Keys k = chain_of(1, 3);
  store(index, 0, k);
  index.store(
      {.holder = at(0), .place = kGpu, .keys = k, .engine_keys = engine(k), .count_again = false});
  index.remove(at(0), kGpu, engine(k));
  EXPECT_EQ(match(index, 0, k).blocks, 0u);
}

TEST(PreciseIndex, CountsNoFurtherThanItCan) {
  PreciseIndex index;
  const Keys k = chain_of(1, 1);
  for (int i = 0; i < 300; ++i) store(index, 0, k);
  EXPECT_EQ(index.holders_of(k[0]), (std::vector<Held>{{0, kGpu, 127}}));
  EXPECT_EQ(index.stats().holdings, 1u);
  EXPECT_EQ(index.check(), "");
}

struct Mapping {
  size_t engine_keys, keys;
  std::vector<std::vector<size_t>> expected;  // by engine key
};
const std::vector<Mapping> kMappings = {
    {4, 4, {{0}, {1}, {2}, {3}}}, {8, 2, {{0}, {0}, {0}, {0}, {1}, {1}, {1}, {1}}},
    {2, 4, {{0, 1}, {2, 3}}},     {5, 1, {{0}, {0}, {0}, {0}, {0}}},
    {3, 2, {{0}, {0}, {1}}},      {5, 4, {{0}, {0}, {1}, {2}, {3}}},
};

TEST(PreciseIndex, MapsEngineKeysOfOtherBlockSizes) {
  for (const Mapping& m : kMappings) {
    SCOPED_TRACE(std::to_string(m.engine_keys) + " to " + std::to_string(m.keys));
    const Keys k = chain_of(1, m.keys);
    const Keys e = chain_of(2, m.engine_keys);
    for (size_t i = 0; i < e.size(); ++i) {
      PreciseIndex index;
      index.store({.holder = at(0), .place = kGpu, .keys = k, .engine_keys = e});
      EXPECT_EQ(index.request_key(at(0), e[i]), k[m.expected[i].back()]);
      index.remove(at(0), kGpu, Keys{e[i]});
      for (size_t j = 0; j < k.size(); ++j)
        EXPECT_EQ(index.holders_of(k[j]).empty(), std::ranges::count(m.expected[i], j) > 0) << j;
      EXPECT_EQ(index.request_key(at(0), e[i]), std::nullopt);
      EXPECT_EQ(index.check(), "");
    }
  }
}

TEST(PreciseIndex, KnowsBlocksByTheKeysOfSeveralEngines) {
  PreciseIndex index;
  const Keys k = chain_of(1, 3);
  for (uint32_t slot = 0; slot < 3; ++slot)
    index.store({.holder = at(slot), .place = kGpu, .keys = k, .engine_keys = engine(k, slot)});
  for (uint32_t slot = 0; slot < 3; ++slot) {
    EXPECT_EQ(index.request_key(at(slot), engine(k, slot)[2]), k[2]);
    index.remove(at(slot), kGpu, engine(k, slot));
    EXPECT_EQ(match(index, slot, k).blocks, 0u);
  }
  EXPECT_EQ(index.stats().holdings, 0u);
  EXPECT_EQ(index.check(), "");
}

TEST(PreciseIndex, AsksOtherPartsForEngineKeys) {
  PreciseIndex index({.parts = 2});
  const Keys k = chain_of(1, 3);
  store(index, 0, k);
  EXPECT_EQ(index.request_key(at(1), engine(k)[2]), k[2]);
  index.store({.holder = at(1), .place = kCpu, .keys = k});  // told without tokens
  EXPECT_EQ(match(index, 1, k).blocks, 3u);
  index.remove(at(1), kCpu, engine(k));
  EXPECT_EQ(match(index, 1, k).blocks, 0u);
  EXPECT_EQ(match(index, 0, k).blocks, 3u);
  EXPECT_EQ(index.check(), "");
}

TEST(PreciseIndex, AnEngineKeyStandsForWhatItWasStoredWithLast) {
  PreciseIndex index;
  const Keys a = chain_of(1, 1), b = chain_of(2, 1), e = chain_of(3, 1);
  index.store({.holder = at(0), .place = kGpu, .keys = a, .engine_keys = e});
  index.store({.holder = at(0), .place = kGpu, .keys = b, .engine_keys = e});
  EXPECT_EQ(index.request_key(at(0), e[0]), b[0]);
  index.remove(at(0), kGpu, e);
  EXPECT_EQ(match(index, 0, a).blocks, 1u);
  EXPECT_EQ(match(index, 0, b).blocks, 0u);
  EXPECT_EQ(index.check(), "");
}

TEST(PreciseIndex, PurgeForgetsOneEndpointForGood) {
  PreciseIndex index;
  const Keys chain = chain_of(1, 5);
  for (const uint32_t slot : {0u, 1u}) store(index, slot, chain);
  index.purge(at(0));
  EXPECT_EQ(match(index, 0, chain).blocks, 0u);
  EXPECT_EQ(match(index, 1, chain).blocks, 5u);
  store(index, 0, chain);  // late
  EXPECT_EQ(index.holdings_of(at(0)), 0u);
  index.store({.holder = at(0, 2), .place = kGpu, .keys = chain});
  EXPECT_EQ(match(index, 0, chain).blocks, 0u) << "the old generation";
  EXPECT_EQ(index.holdings_of(at(0, 2)), 5u);
  index.purge(at(0, 1));  // late
  EXPECT_EQ(index.holdings_of(at(0, 2)), 5u);
  EXPECT_EQ(index.check(), "");
}

TEST(PreciseIndex, ANewGenerationStartsEmpty) {
  PreciseIndex index;
  store(index, 0, chain_of(1, 3));
  index.store({.holder = at(0, 2), .place = kGpu, .keys = chain_of(2, 2)});
  EXPECT_TRUE(index.holders_of(chain_of(1, 1)[0]).empty());
  EXPECT_EQ(index.holdings_of(at(0, 2)), 2u);
  EXPECT_EQ(index.check(), "");
}

TEST(PreciseIndex, KeyZeroIsNoBlock) {
  PreciseIndex index;
  const Keys k = {0, 5};
  index.store({.holder = at(0), .place = kGpu, .keys = k, .engine_keys = Keys{7, 0}});
  EXPECT_EQ(index.stats().holdings, 1u);
  EXPECT_EQ(match(index, 0, k).blocks, 0u);
  index.remove(at(0), kGpu, Keys{0, 7});
  EXPECT_EQ(match(index, 0, {5}).blocks, 1u);
  EXPECT_EQ(index.check(), "");
}

TEST(PreciseIndex, HoldsNoMoreBlocksThanAllowed) {
  PreciseIndex index({.blocks_max = 100});
  for (uint64_t family = 0; family < 50; ++family)
    store(index, static_cast<uint32_t>(family % 3), chain_of(family, 7));
  EXPECT_EQ(index.stats().blocks, 100u);
  EXPECT_EQ(index.stats().holdings, 100u);
  EXPECT_EQ(index.stats().evicted, 250u);
  EXPECT_EQ(index.check(), "");
}

TEST(PreciseIndex, DropsWhatWasNotUsedAndEndsOfChainsFirst) {
  PreciseIndex index({.blocks_max = 60});
  const Keys used = chain_of(1, 20), unused = chain_of(2, 40);
  store(index, 0, used);
  store(index, 0, unused);
  store(index, 0, chain_of(3, 1));  // looks at all, so that none is recent any more
  index.touch(used);
  store(index, 0, chain_of(4, 10));
  EXPECT_EQ(match(index, 0, used).blocks, 20u);
  EXPECT_EQ(match(index, 0, unused).blocks, 29u);
  EXPECT_EQ(index.check(), "");
}

TEST(PreciseIndex, StaysWithinItsBytes) {
  constexpr size_t kBytes = 1 << 20;
  PreciseIndex index({.bytes_max = kBytes});
  for (uint64_t family = 0; family < 3000; ++family) {
    const Keys chain = chain_of(family, 20);
    store(index, static_cast<uint32_t>(family % 64), chain);
    store(index, static_cast<uint32_t>(family / 64 % 64), chain);
  }
  EXPECT_LE(index.stats().bytes, kBytes);
  EXPECT_GT(index.stats().blocks, kBytes / 100);
  EXPECT_EQ(index.check(), "");
}

TEST(PreciseIndex, RemembersNoMoreThanAllowed) {
  PreciseIndex index;
  for (uint64_t family = 0; family < 10; ++family) store(index, 0, chain_of(family, 10'000));
  index.clear(at(0));
  EXPECT_EQ(index.stats().blocks, 0u);
  EXPECT_EQ(index.stats().remembered, 1u << 16);
  EXPECT_EQ(index.check(), "");
}

TEST(PreciseIndex, HoldsKeysMadeToCollide) {
  PreciseIndex index;
  Keys keys;
  for (uint64_t i = 1; i <= 2000; ++i) keys.push_back(i << 44);
  store(index, 0, keys);
  EXPECT_EQ(match(index, 0, keys).blocks, 2000u);
  EXPECT_EQ(index.check(), "");
  PreciseIndex open({}, HashSecret{0, 0});  // hashes are the keys themselves
  store(open, 0, keys);
  EXPECT_EQ(match(open, 0, keys).blocks, 2000u);
  EXPECT_EQ(open.check(), "");
}

/// The same relations, kept in the obvious way.
class Oracle {
 public:
  using Who = std::pair<uint32_t, int>;  // slot, number of a place
  void store(const BlockRun& run, int place) {
    const size_t e = run.engine_keys.size();
    const size_t r = run.keys.size();
    for (const uint64_t key : run.keys) {
      int& count = rows_[key][{run.holder.slot, place}];
      if (count == 0 || run.count_again) ++count;
    }
    if (e == 0) return;
    for (const uint64_t key : run.engine_keys) mapped_.erase(key);
    for (size_t i = 0; i < std::max(e, r); ++i)
      mapped_[run.engine_keys[i * e / std::max(e, r)]].push_back(run.keys[i * r / std::max(e, r)]);
  }
  size_t store_known(uint32_t slot, int place, const Keys& engine_keys) {
    size_t stored = 0;
    uint64_t before = 0;
    for (const uint64_t engine_key : engine_keys)
      for (const uint64_t key : mapped_[engine_key]) {
        if (std::exchange(before, key) == key) continue;
        ++rows_[key][{slot, place}];
        ++stored;
      }
    return stored;
  }
  void remove(uint32_t slot, int place, const Keys& engine_keys) {
    for (const uint64_t engine_key : engine_keys) {
      const auto at = mapped_.find(engine_key);
      if (at == mapped_.end()) continue;
      remove_keys(slot, place, at->second);
      if (std::ranges::none_of(at->second, [&](uint64_t key) { return rows_.contains(key); }))
        mapped_.erase(at);
    }
  }
  void remove_keys(uint32_t slot, int place, const Keys& keys) {
    for (const uint64_t key : keys) {
      const auto row = rows_.find(key);
      if (row == rows_.end()) continue;
      const auto held = row->second.find({slot, place});
      if (held != row->second.end() && --held->second == 0) row->second.erase(held);
      if (row->second.empty()) rows_.erase(row);
    }
  }
  void clear(uint32_t slot) {
    for (auto& [key, row] : rows_)
      std::erase_if(row, [&](const auto& held) { return held.first.first == slot; });
    std::erase_if(rows_, [](const auto& row) { return row.second.empty(); });
  }
  PrefixHit match(uint32_t slot, const Keys& chain, const std::vector<Place>& places) const {
    PrefixHit hit;
    for (size_t i = 0; i < chain.size(); ++i) {
      const auto row = rows_.find(chain[i]);
      double best = -1;
      if (row == rows_.end()) break;
      std::array<bool, 2 * Place::kTiersMax> tiers{};
      for (const auto& [who, count] : row->second) {
        if (who.first != slot) continue;
        const Place& place = places[static_cast<size_t>(who.second)];
        best = std::max(best, place.speculative ? 1 : kWeights[place.tier]);
        tiers[place.speculative ? Place::kTiersMax : place.tier] = true;
      }
      if (best < 0) break;
      hit.score += best;
      ++hit.blocks;
      for (size_t t = 0; t < Place::kTiersMax; ++t)
        if (tiers[t] && hit.blocks_by_tier[t] == i) ++hit.blocks_by_tier[t];
      if (tiers[Place::kTiersMax] && hit.speculative_blocks == i) ++hit.speculative_blocks;
    }
    return hit;
  }
  std::optional<uint64_t> request_key(uint64_t engine_key) const {
    const auto at = mapped_.find(engine_key);
    if (at == mapped_.end()) return std::nullopt;
    return at->second.back();
  }
  bool has(uint64_t key) const { return rows_.contains(key); }
  size_t blocks() const { return rows_.size(); }
  size_t holdings() const {
    size_t n = 0;
    for (const auto& [key, row] : rows_) n += row.size();
    return n;
  }

 private:
  std::map<uint64_t, std::map<Who, int>> rows_;
  std::map<uint64_t, Keys> mapped_;
};

const std::vector<Place> kPlaces = {kGpu, kCpu, kGpuGroup0, kSpeculative};
constexpr uint32_t kSlots[] = {0, 1, 2, 63, 64, 200, 4095};

/// Families share their trunks, so that chains meet and part.
Keys random_chain(Rng& rng) {
  const uint64_t family = rng.below(8);
  Keys chain = chain_of(family, rng.below(40));
  const Keys branch = chain_of(100 + family * 50 + chain.size(), rng.below(12));
  chain.insert(chain.end(), branch.begin(), branch.end());
  return chain;
}

/// Stores the chain, or as often its end alone, behind the block before it as its engine names it.
/// Where all engines are alike, it is the whole chain if that block is not known.
BlockRun random_run(Rng& rng, const PreciseIndex& index, const Holder& holder, const Keys& chain,
                    uint64_t engine_seed, bool alike) {
  BlockRun run{.holder = holder, .keys = chain, .count_again = rng.below(4) != 0};
  if (chain.empty() || rng.below(2) == 0) return run;
  const size_t from = rng.below(chain.size());
  if (from == 0) return run;
  const uint64_t before = engine(chain, engine_seed)[from - 1];
  const bool known = index.request_key(holder, before) == chain[from - 1];
  if (alike && !known) return run;
  run.keys = run.keys.subspan(from);
  run.parent = chain[from - 1];
  if (known) run.parent_engine_key = before;
  return run;
}

/// One random change of an index and, if there are any, of the oracle of its part.
/// `alike`: engines call the same blocks the same, and their blocks have the index's size.
void change(Rng& rng, PreciseIndex& index, size_t parts, bool alike, std::vector<Oracle>* oracles) {
  const uint32_t slot = kSlots[rng.below(std::size(kSlots))];
  Oracle* const oracle = oracles ? &(*oracles)[slot % parts] : nullptr;
  const auto place = static_cast<int>(rng.below(kPlaces.size()));
  const Place& where = kPlaces[static_cast<size_t>(place)];
  const Keys chain = random_chain(rng);
  // Each part has engines of its own: what an engine key means is a matter of the part.
  const uint64_t engine_seed = !alike && rng.below(8) == 0 ? slot + 10 : 1 + slot % parts;
  Keys engine_keys = engine(chain, engine_seed);
  const uint64_t kind = rng.below(100);
  if (kind < 45) {
    BlockRun run = random_run(rng, index, at(slot), chain, engine_seed, alike);
    run.place = where;
    // Engine blocks of another size have keys of their own.
    if (kind < 8 && !alike && !chain.empty())
      engine_keys = engine(chain_of(run.keys[0], 1 + rng.below(60)), engine_seed);
    else
      engine_keys = engine({run.keys.begin(), run.keys.end()}, engine_seed);
    if (kind < 40) run.engine_keys = engine_keys;
    index.store(run);
    if (oracle && !run.keys.empty()) oracle->store(run, place);
  } else if (kind < 50) {
    if (rng.below(2) == 0) std::ranges::reverse(engine_keys);
    std::erase_if(engine_keys, [&](uint64_t key) { return !index.request_key(at(slot), key); });
    const size_t stored = index.store_known(at(slot), where, engine_keys);
    if (oracle) {
      ASSERT_EQ(stored, oracle->store_known(slot, place, engine_keys));
    }
  } else if (kind < 90) {
    if (rng.below(2) == 0) std::ranges::reverse(engine_keys);
    index.remove(at(slot), where, engine_keys);
    if (oracle) oracle->remove(slot, place, engine_keys);
  } else if (kind < 98) {
    index.remove_keys(at(slot), where, chain);
    if (oracle) oracle->remove_keys(slot, place, chain);
  } else {
    index.clear(at(slot));
    if (oracle) oracle->clear(slot);
  }
}

TEST(PreciseIndex, AgreesWithANaiveOneUnderRandomWork) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    const size_t parts = seed % 2 == 0 ? 1 : 3;
    const bool alike = seed > 5;
    PreciseIndex index({.parts = parts});
    std::vector<Oracle> oracles(parts);
    for (int step = 0; step < 1500; ++step) {
      change(rng, index, parts, alike, &oracles);
      const Keys asked = random_chain(rng);
      std::vector<Holder> holders;
      for (const uint32_t slot : kSlots) holders.push_back(at(slot));
      std::vector<PrefixHit> hits(holders.size());
      index.match(asked, holders, kWeights, hits);
      for (size_t i = 0; i < holders.size(); ++i)
        ASSERT_EQ(hits[i], oracles[kSlots[i] % parts].match(kSlots[i], asked, kPlaces)) << step;
      if (parts == 1) {
        for (const uint64_t key : engine(asked)) {
          // Those of blocks that are gone may be swept.
          const auto known = index.request_key(at(0), key);
          const auto expected = oracles[0].request_key(key);
          if (known || (expected && oracles[0].has(*expected))) {
            ASSERT_EQ(known, expected) << step;
          }
        }
      }
      size_t blocks = 0;
      size_t holdings = 0;
      for (const Oracle& oracle : oracles) {
        blocks += oracle.blocks();
        holdings += oracle.holdings();
      }
      ASSERT_EQ(index.stats().blocks, blocks) << step;
      ASSERT_EQ(index.stats().holdings, holdings) << step;
      if (step % 100 == 0) {
        ASSERT_EQ(index.check(), "") << step;
      }
    }
    EXPECT_EQ(index.check(), "");
    if (alike) {
      EXPECT_LT(index.stats().entries, index.stats().blocks / 2);
    }
  }
}

TEST(PreciseIndex, KeepsItsInvariantsWhileItIsFull) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE(seed);
    Rng rng(seed);
    const size_t parts = 1 + seed % 3;
    const size_t bytes_max = seed % 2 == 0 ? 40'000 : 0;
    PreciseIndex index({.blocks_max = 150, .bytes_max = bytes_max, .parts = parts});
    for (int step = 0; step < 1500; ++step) {
      change(rng, index, parts, seed > 4, nullptr);
      if (step % 10 == 0) {
        ASSERT_EQ(index.check(), "") << step;
      }
    }
    EXPECT_GT(index.stats().evicted, 0u);
  }
}

TEST(PreciseIndex, ReadersBesideWritersSeeNoFalseHolder) {
  PreciseIndex index({.blocks_max = 500, .parts = 2});
  constexpr uint32_t kWriters = 3;
  std::atomic<uint32_t> writing{kWriters};
  std::atomic<int> false_hits{0};
  // Family f is only ever stored for the slots f and f + 1.
  const auto write = [&](uint32_t writer) {
    Rng rng(writer + 1);
    for (int round = 0; round < 600; ++round) {
      const auto family = static_cast<uint32_t>(rng.below(6));
      const auto slot = family + static_cast<uint32_t>(rng.below(2));
      const Keys chain = chain_of(family, 1 + rng.below(60));
      if (rng.below(3) > 0)
        store(index, slot, chain);
      else if (rng.below(20) > 0)
        index.remove(at(slot), kGpu, engine(chain));
      else
        index.clear(at(slot));
    }
    writing.fetch_sub(1);
  };
  const auto read = [&] {
    Rng rng(9);
    std::vector<Holder> holders;
    for (uint32_t slot = 0; slot < 8; ++slot) holders.push_back(at(slot));
    while (writing.load() > 0) {
      const auto family = static_cast<uint32_t>(rng.below(6));
      const Keys chain = chain_of(family, 60);
      std::vector<PrefixHit> hits(holders.size());
      index.match(chain, holders, kWeights, hits);
      for (uint32_t slot = 0; slot < holders.size(); ++slot)
        if (slot != family && slot != family + 1 && hits[slot].blocks > 0) false_hits.fetch_add(1);
      index.touch(chain);
    }
  };
  std::vector<std::thread> threads;
  for (uint32_t writer = 0; writer < kWriters; ++writer) threads.emplace_back(write, writer);
  threads.emplace_back(read);
  threads.emplace_back(read);
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(false_hits.load(), 0);
  EXPECT_EQ(index.check(), "");
}

}  // namespace
}  // namespace llmd::kv
