#include "kv/precise_index.h"

#include "chain_walk.h"
#include "places.h"
#include "precise_part.h"
#include "prefix_score.h"

#include "base/check.h"

#include <algorithm>

namespace llmd::kv {
namespace {

/// The owners of a block; 0 when it is not there. The node may change hands meanwhile.
uint32_t owners_of(const PrecisePart& part, uint32_t node, uint64_t key) {
  for (; node != 0; node = part.entry_of(key)) {
    const BlockNode& at = part.nodes()[node];
    const uint32_t owners = at.owners.load(std::memory_order_acquire);
    if (at.key.load(std::memory_order_relaxed) == key) return owners;
  }
  return 0;
}

void follow_chain(const PrecisePart& part, std::span<const uint64_t> chain, PrefixScore& score) {
  ChainWalk walk(part, chain);
  uint32_t owners = 0;  // of the block before
  uint32_t same = 0;    // blocks that have them
  for (size_t i = 0; i < chain.size(); ++i) {
    const uint32_t now = owners_of(part, walk.find(i), chain[i]);
    if (now == owners && now != 0) {
      ++same;
      continue;
    }
    if (now == 0) break;
    score.count(same);
    score.change(part.owners().read(now));
    if (!score.anyone()) return;
    owners = now;
    same = 1;
  }
  score.count(same);
  score.finish();
}

}  // namespace

PreciseIndex::PreciseIndex(const PreciseIndexOptions& options, const HashSecret& secret)
    : epochs_(std::make_unique<Epochs>()) {
  CHECK(options.parts > 0);
  for (size_t i = 0; i < options.parts; ++i)
    parts_.push_back(std::make_unique<PrecisePart>(*epochs_, options, secret));
}

PreciseIndex::~PreciseIndex() = default;

PrecisePart& PreciseIndex::part_of(const Holder& holder) const {
  CHECK(holder.slot < limits::kEndpointsMax);
  return *parts_[holder.slot % parts_.size()];
}

void PreciseIndex::match(std::span<const uint64_t> chain, std::span<const Holder> holders,
                         const TierWeights& weights, std::span<PrefixHit> hits) const {
  CHECK(hits.size() >= holders.size());
  const Epochs::Reader reader(*epochs_);
  for (const auto& part : parts_) {
    PrefixScore score(weights);
    for (size_t i = 0; i < holders.size(); ++i)
      if (&part_of(holders[i]) == part.get() &&
          part->generation_of(holders[i].slot) == holders[i].generation)
        score.follow(holders[i].slot, hits[i]);
    if (score.anyone()) follow_chain(*part, chain, score);
  }
}

void PreciseIndex::touch(std::span<const uint64_t> chain) {
  const Epochs::Reader reader(*epochs_);
  for (const auto& part : parts_) {
    ChainWalk walk(*part, chain);
    for (size_t i = 0; i < chain.size(); ++i) {
      const uint32_t node = walk.find(i);
      if (node == 0) break;
      auto& link = part->nodes()[node].link;
      if (!(link.load(std::memory_order_relaxed) & BlockNode::kRecent))
        link.fetch_or(BlockNode::kRecent, std::memory_order_relaxed);
    }
  }
}

void PreciseIndex::store(const BlockRun& run) {
  part_of(run.holder).store(run);
}

size_t PreciseIndex::remove(const Holder& holder, const Place& place,
                            std::span<const uint64_t> engine_keys) {
  PrecisePart& part = part_of(holder);
  const auto [unknown_keys, copies] = part.remove(holder, place, engine_keys);
  for (const uint64_t unknown : unknown_keys)
    for (const auto& other : parts_)
      if (other.get() != &part) part.remove_keys(holder, place, other->request_keys(unknown));
  return copies;
}

size_t PreciseIndex::store_known(const Holder& holder, const Place& place,
                                 std::span<const uint64_t> engine_keys) {
  PrecisePart& part = part_of(holder);
  std::vector<uint64_t> unknown_keys;
  size_t stored = part.store_known(holder, place, engine_keys, unknown_keys);
  for (const uint64_t unknown : unknown_keys) {
    const auto keys = keys_of_others(part, unknown);
    part.store({.holder = holder, .place = place, .keys = keys, .engine_keys = {}});
    stored += keys.size();
  }
  return stored;
}

void PreciseIndex::remove_keys(const Holder& holder, const Place& place,
                               std::span<const uint64_t> keys) {
  part_of(holder).remove_keys(holder, place, keys);
}

void PreciseIndex::clear(const Holder& holder) {
  part_of(holder).clear(holder, false);
}

void PreciseIndex::purge(const Holder& holder) {
  part_of(holder).clear(holder, true);
}

std::optional<uint64_t> PreciseIndex::request_key(const Holder& holder, uint64_t engine_key) const {
  PrecisePart& own = part_of(holder);
  auto keys = own.request_keys(engine_key);
  if (keys.empty()) keys = keys_of_others(own, engine_key);
  if (keys.empty()) return std::nullopt;
  return keys.back();
}

/// What parts of other endpoints know an engine key as; `own` then finds its blocks by it.
std::vector<uint64_t> PreciseIndex::keys_of_others(PrecisePart& own, uint64_t engine_key) const {
  for (const auto& part : parts_) {
    if (part.get() == &own) continue;
    auto keys = part->request_keys(engine_key);
    if (keys.empty()) continue;
    own.enter_all();
    return keys;
  }
  return {};
}

void PreciseIndex::expect_keys_from_elsewhere(const Holder& holder) {
  part_of(holder).enter_all();
}

size_t PreciseIndex::holdings_of(const Holder& holder) const {
  return part_of(holder).holdings_of(holder);
}

std::vector<PreciseIndex::Held> PreciseIndex::holders_of(uint64_t key) const {
  std::vector<Held> out;
  const Epochs::Reader reader(*epochs_);
  for (const auto& part : parts_) {
    const uint32_t owners = owners_of(*part, part->find_slowly(key), key);
    if (owners == 0) continue;
    for (const uint32_t holding : part->owners().read(owners))
      out.push_back(
          {Holding::slot(holding), place_of(Holding::place(holding)), Holding::count(holding)});
  }
  std::ranges::stable_sort(out, {}, &Held::slot);
  return out;
}

PreciseIndexStats PreciseIndex::stats() const {
  PreciseIndexStats stats;
  for (const auto& part : parts_) part->add_stats(stats);
  return stats;
}

std::string PreciseIndex::check() const {
  for (const auto& part : parts_)
    if (std::string wrong = part->check(); !wrong.empty()) return wrong;
  return "";
}

}  // namespace llmd::kv
