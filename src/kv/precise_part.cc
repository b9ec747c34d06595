#include "precise_part.h"

#include "places.h"

#include "base/check.h"

#include <algorithm>
#include <utility>

namespace llmd::kv {
namespace {

/// Blocks after which a writer lets others go first.
constexpr size_t kSlice = 256;
/// Blocks whose cache lines are on their way while one is stored, two lines each.
constexpr size_t kAhead = 12;
/// Nodes that an eviction looks at before it takes one that is recent.
constexpr size_t kLooks = 64;
constexpr size_t kSweepMin = 4096;
/// What an alias costs: a pair of keys at the usual load of its map.
constexpr size_t kAliasBytes = 24;

}  // namespace

struct PrecisePart::KeyHash {
  const PrecisePart& part;
  uint64_t operator()(uint32_t node) const {
    return part.hash_of(part.nodes_[node].key.load(std::memory_order_relaxed));
  }
  void prefetch(uint32_t node) const { __builtin_prefetch(&part.nodes_[node]); }
};

struct PrecisePart::EngineKeyHash {
  const PrecisePart& part;
  uint64_t operator()(uint32_t node) const { return part.hash_of(part.nodes_[node].engine_key); }
  void prefetch(uint32_t node) const { __builtin_prefetch(&part.nodes_[node]); }
};

PrecisePart::PrecisePart(Epochs& epochs, const PreciseIndexOptions& options,
                         const HashSecret& secret)
    : epochs_(epochs),
      secret_(secret),
      blocks_max_(std::max<size_t>(options.blocks_max / options.parts, 1)),
      bytes_max_(options.bytes_max / options.parts),
      nodes_(blocks_max_),
      by_key_(epochs),
      by_engine_key_(epochs),
      owners_(epochs, blocks_max_),
      sweep_at_(kSweepMin),
      blocks_limit_(blocks_max_) {}

PrecisePart::~PrecisePart() {
  for (auto& endpoint : endpoints_) delete endpoint.load();
}

/// The endpoint under the holder's generation, or null if that is a thing of the past.
PrecisePart::Endpoint* PrecisePart::present(const Holder& holder) {
  Endpoint* at = endpoints_[holder.slot].load(std::memory_order_relaxed);
  if (at == nullptr) {
    at = new Endpoint;
    endpoints_[holder.slot].store(at, std::memory_order_release);
  }
  const uint64_t generation = at->generation.load(std::memory_order_relaxed);
  if (holder.generation <= at->purged || holder.generation < generation) return nullptr;
  if (holder.generation != generation) {
    clear_holdings(*at, holder.slot);
    at->generation.store(holder.generation, std::memory_order_release);
  }
  return at;
}

void PrecisePart::reclaim() {
  owners_.reclaim();
  by_key_.reclaim();
  by_engine_key_.reclaim();
}

// ---- storing

void PrecisePart::store(const BlockRun& run) {
  const bool one_to_one = run.engine_keys.size() == run.keys.size();
  const uint32_t who = Holding::who(run.holder.slot, code_of(run.place));
  uint32_t previous = 0;
  for (size_t at = 0; at < run.keys.size(); at += kSlice) {
    const size_t count = std::min(kSlice, run.keys.size() - at);
    const MutexLock lock(mutex_);
    Endpoint* endpoint = present(run.holder);
    if (endpoint == nullptr) return;
    reclaim();
    if (at == 0 && run.parent != 0) previous = node_of(run.parent);
    previous = store_slice(
        {endpoint, who, run.count_again}, run.keys.subspan(at, count),
        one_to_one ? run.engine_keys.subspan(at, count) : run.engine_keys.first(0), previous);
    keep_runs_short(*endpoint, run.holder.slot);
    keep_within_bytes(count);
  }
  if (one_to_one || run.engine_keys.empty()) return;
  const MutexLock lock(mutex_);
  map_aliases(run.keys, run.engine_keys);
}

/// Returns the node of the last block.
uint32_t PrecisePart::store_slice(const Writer& writer, std::span<const uint64_t> keys,
                                  std::span<const uint64_t> engine_keys, uint32_t previous) {
  const bool map = !engine_keys.empty();
  uint64_t hashes[kAhead];
  uint64_t engine_hashes[kAhead];
  for (size_t next = 0; next < keys.size() + kAhead; ++next) {
    const size_t place = next % kAhead;
    if (next >= kAhead && keys[next - kAhead] != 0) {
      const size_t i = next - kAhead;
      previous = store_one(writer, keys[i], hashes[place], previous);
      if (map) map_engine_key(previous, engine_keys[i], engine_hashes[place]);
    }
    if (next >= keys.size()) continue;
    by_key_.prefetch(hashes[place] = hash_of(keys[next]));
    if (map) by_engine_key_.prefetch(engine_hashes[place] = hash_of(engine_keys[next]));
  }
  return previous;
}

uint32_t PrecisePart::store_one(const Writer& writer, uint64_t key, uint64_t hash,
                                uint32_t previous) {
  uint32_t number = previous == 0 ? 0 : nodes_[previous].successor();
  if (number == 0 || nodes_[number].key.load(std::memory_order_relaxed) != key)
    number = by_key_.find(hash, [&](uint32_t other) {
      return nodes_[other].key.load(std::memory_order_relaxed) == key;
    });
  Endpoint& endpoint = *writer.endpoint;
  if (number == 0) {
    number = create(key, hash, owners_.add(0, writer.who, writer.count_again));
    ++endpoint.holdings;
    ++holdings_;
    note_run(endpoint, number);
  } else {
    BlockNode& node = nodes_[number];
    const uint32_t before = node.owners.load(std::memory_order_relaxed);
    const uint32_t after = owners_.add(before, writer.who, writer.count_again);
    if (after != before) {
      const bool is_new = owners_.size_of(after) != owners_.size_of(before);
      node.owners.store(after, std::memory_order_release);
      if (before == 0) --unowned_;
      if (is_new) {
        ++endpoint.holdings;
        ++holdings_;
        note_run(endpoint, number);
      }
    }
    node.link.store(node.successor() | BlockNode::kRecent, std::memory_order_release);
  }
  if (previous != 0 && nodes_[previous].successor() != number)
    nodes_[previous].link.store(number | BlockNode::kRecent, std::memory_order_release);
  return number;
}

uint32_t PrecisePart::create(uint64_t key, uint64_t hash, uint32_t owners) {
  while (nodes_.used() >= blocks_limit_) evict_one();
  const uint32_t number = nodes_.allocate(may_grow(BlockNodes::kGrowth));
  BlockNode& node = nodes_[number];
  node.owners.store(owners, std::memory_order_release);
  node.link.store(BlockNode::kRecent, std::memory_order_release);
  node.key.store(key, std::memory_order_release);
  by_key_.insert(hash, number, KeyHash{*this}, may_grow(by_key_.growth(hash)));
  return number;
}

void PrecisePart::note_run(Endpoint& endpoint, uint32_t node) {
  ++endpoint.run_nodes;
  if (!endpoint.runs.empty()) {
    Run& last = endpoint.runs.back();
    if (last.first + last.count == node) {
      ++last.count;
      return;
    }
  }
  run_bytes_ -= endpoint.runs.capacity() * sizeof(Run);
  endpoint.runs.push_back({node, 1});
  run_bytes_ += endpoint.runs.capacity() * sizeof(Run);
}

/// Keeps of an endpoint's runs what it holds, each node once, if they have become too many.
void PrecisePart::keep_runs_short(Endpoint& endpoint, uint32_t slot) {
  if (endpoint.run_nodes <= 2 * endpoint.holdings + kRunsSlack) return;
  std::vector<Run> before = std::exchange(endpoint.runs, {});
  run_bytes_ -= before.capacity() * sizeof(Run);
  endpoint.run_nodes = 0;
  std::ranges::sort(before, {}, &Run::first);
  uint32_t next = 0;  // all nodes before have been looked at
  for (const Run& run : before) {
    for (next = std::max(next, run.first); next < run.first + run.count; ++next) {
      const uint32_t owners = nodes_[next].owners.load(std::memory_order_relaxed);
      if (owners != 0 && OwnerSets::holds(owners_.read(owners), slot)) note_run(endpoint, next);
    }
  }
}

// ---- engine keys

void PrecisePart::map_engine_key(uint32_t number, uint64_t engine_key, uint64_t hash) {
  BlockNode& node = nodes_[number];
  if (node.engine_key == engine_key || engine_key == 0) return;
  forget_engine_key(engine_key, hash);
  if (node.engine_key == 0) {
    node.engine_key = engine_key;
    by_engine_key_.insert(hash, number, EngineKeyHash{*this},
                          may_grow(by_engine_key_.growth(hash)));
  } else {
    aliases_[engine_key] = node.key.load(std::memory_order_relaxed);
    sweep_aliases();
  }
}

/// Spec 05 §3.2, for sizes that differ.
void PrecisePart::map_aliases(std::span<const uint64_t> keys,
                              std::span<const uint64_t> engine_keys) {
  for (const uint64_t engine_key : engine_keys) forget_engine_key(engine_key, hash_of(engine_key));
  if (engine_keys.size() > keys.size()) {
    for (size_t i = 0; i < engine_keys.size(); ++i)
      aliases_[engine_keys[i]] = keys[i * keys.size() / engine_keys.size()];
  } else {
    for (size_t i = 0; i < keys.size(); ++i)
      spans_[engine_keys[i * engine_keys.size() / keys.size()]].push_back(keys[i]);
    span_keys_ += keys.size();
  }
  sweep_aliases();
}

void PrecisePart::forget_engine_key(uint64_t engine_key, uint64_t hash) {
  const uint32_t number = by_engine_key_.find(
      hash, [&](uint32_t other) { return nodes_[other].engine_key == engine_key; });
  if (number != 0) {
    BlockNode& node = nodes_[number];
    by_engine_key_.erase(hash, number);
    node.engine_key = 0;
    if (node.owners.load(std::memory_order_relaxed) == 0) free_node(number);
  }
  if (!aliases_.empty()) aliases_.erase(engine_key);
  if (spans_.empty()) return;
  if (const auto span = spans_.find(engine_key); span != spans_.end()) {
    span_keys_ -= span->second.size();
    spans_.erase(span);
  }
}

/// Drops those whose blocks are gone, whenever they have become twice as many.
void PrecisePart::sweep_aliases() {
  if (aliases_.size() + span_keys_ < sweep_at_) return;
  const auto gone = [&](uint64_t key) { return node_of(key) == 0; };
  boost::unordered::erase_if(aliases_, [&](const auto& alias) { return gone(alias.second); });
  boost::unordered::erase_if(spans_, [&](const auto& span) {
    mutex_.assume_held();
    if (!std::ranges::all_of(span.second, gone)) return false;
    span_keys_ -= span.second.size();
    return true;
  });
  sweep_at_ = std::max(kSweepMin, 2 * (aliases_.size() + span_keys_));
}

std::vector<uint64_t> PrecisePart::request_keys(uint64_t engine_key) const {
  const MutexLock lock(mutex_);
  if (const uint32_t number = by_engine_key_.find(hash_of(engine_key), [&](uint32_t other) {
        return nodes_[other].engine_key == engine_key;
      }))
    return {nodes_[number].key.load(std::memory_order_relaxed)};
  if (const auto alias = aliases_.find(engine_key); alias != aliases_.end()) return {alias->second};
  if (const auto span = spans_.find(engine_key); span != spans_.end()) return span->second;
  return {};
}

// ---- removing

PrecisePart::Removal PrecisePart::remove(const Holder& holder, const Place& place,
                                         std::span<const uint64_t> engine_keys) {
  Removal removal;
  const uint32_t who = Holding::who(holder.slot, code_of(place));
  for (size_t at = 0; at < engine_keys.size(); at += kSlice) {
    const MutexLock lock(mutex_);
    Endpoint* endpoint = present(holder);
    if (endpoint == nullptr) return {};
    reclaim();
    const size_t copies_before = copies_taken_;
    remove_slice({endpoint, who},
                 engine_keys.subspan(at, std::min(kSlice, engine_keys.size() - at)),
                 removal.unknown);
    removal.copies += copies_taken_ - copies_before;
    keep_runs_short(*endpoint, holder.slot);
  }
  return removal;
}

/// Each block waits for three cache lines, one behind the other, while those before it are removed.
/// Requires: at most kSlice keys.
void PrecisePart::remove_slice(const Writer& writer, std::span<const uint64_t> engine_keys,
                               std::vector<uint64_t>& unknown) {
  constexpr size_t kStep = 8;
  uint64_t hashes[kSlice];
  uint32_t guesses[kSlice];
  const size_t count = engine_keys.size();
  for (size_t at = 0; at < count + 3 * kStep; ++at) {
    if (at < count) by_engine_key_.prefetch(hashes[at] = hash_of(engine_keys[at]));
    if (const size_t i = at - kStep; i < count)
      __builtin_prefetch(&nodes_[guesses[i] = by_engine_key_.guess(hashes[i])]);
    if (const size_t i = at - 2 * kStep; i < count)
      prefetch(nodes_[guesses[i]].key.load(std::memory_order_relaxed));
    const size_t i = at - 3 * kStep;
    if (i >= count) continue;
    const auto is_it = [&](uint32_t other) { return nodes_[other].engine_key == engine_keys[i]; };
    const uint32_t number =
        guesses[i] != 0 && is_it(guesses[i]) ? guesses[i] : by_engine_key_.find(hashes[i], is_it);
    if (number != 0)
      take(writer, number, true);
    else if (!remove_alias(writer, engine_keys[i]))
      unknown.push_back(engine_keys[i]);
  }
}

bool PrecisePart::remove_alias(const Writer& writer, uint64_t engine_key) {
  const auto take_key = [&](uint64_t key) {
    mutex_.assume_held();
    const uint32_t number = node_of(key);
    return number == 0 || take(writer, number, false);
  };
  if (const auto alias = aliases_.find(engine_key); alias != aliases_.end()) {
    if (take_key(alias->second)) aliases_.erase(engine_key);
    return true;
  }
  const auto span = spans_.find(engine_key);
  if (span == spans_.end()) return false;
  bool all_gone = true;
  for (const uint64_t key : span->second)
    if (!take_key(key)) all_gone = false;
  if (all_gone) {
    span_keys_ -= span->second.size();
    spans_.erase(span);
  }
  return true;
}

void PrecisePart::remove_keys(const Holder& holder, const Place& place,
                              std::span<const uint64_t> keys) {
  const uint32_t who = Holding::who(holder.slot, code_of(place));
  for (size_t at = 0; at < keys.size(); at += kSlice) {
    const MutexLock lock(mutex_);
    Endpoint* endpoint = present(holder);
    if (endpoint == nullptr) return;
    reclaim();
    const auto slice = keys.subspan(at, std::min(kSlice, keys.size() - at));
    for (const uint64_t key : slice) prefetch(key);
    for (const uint64_t key : slice)
      if (const uint32_t number = node_of(key); number != 0) take({endpoint, who}, number, false);
    keep_runs_short(*endpoint, holder.slot);
  }
}

bool PrecisePart::take(const Writer& writer, uint32_t number, bool forget) {
  BlockNode& node = nodes_[number];
  const uint32_t before = node.owners.load(std::memory_order_relaxed);
  const uint32_t after = before == 0 ? 0 : owners_.take(before, writer.who);
  if (after != before) {
    if (owners_.size_of(after) != owners_.size_of(before)) {
      --writer.endpoint->holdings;
      --holdings_;
    } else {
      ++copies_taken_;
    }
    node.owners.store(after, std::memory_order_release);
    if (after == 0) ++unowned_;
  }
  if (after != 0) return false;
  if (forget || before != 0) vacate(number, forget);
  return true;
}

/// Frees a node that has no owner, or keeps it for its engine key. Requires: it is counted in
/// unowned_.
void PrecisePart::vacate(uint32_t number, bool forget) {
  if (forget || nodes_[number].engine_key == 0) return free_node(number);
  remembered_.push_back(number);
  if (remembered_.size() <= kRememberedMax) return;
  const uint32_t oldest = remembered_.front();
  remembered_.pop_front();
  if (nodes_[oldest].key.load(std::memory_order_relaxed) != 0 &&
      nodes_[oldest].owners.load(std::memory_order_relaxed) == 0)
    free_node(oldest);
}

/// Requires: it has no owner and is counted in unowned_.
void PrecisePart::free_node(uint32_t number) {
  const BlockNode& node = nodes_[number];
  by_key_.erase(hash_of(node.key.load(std::memory_order_relaxed)), number);
  if (node.engine_key != 0) by_engine_key_.erase(hash_of(node.engine_key), number);
  nodes_.free(number);
  --unowned_;
}

void PrecisePart::clear(const Holder& holder, bool for_good) {
  const MutexLock lock(mutex_);
  Endpoint* endpoint = present(holder);
  if (endpoint == nullptr) return;
  reclaim();
  clear_holdings(*endpoint, holder.slot);
  if (for_good) endpoint->purged = holder.generation;
}

void PrecisePart::clear_holdings(Endpoint& endpoint, uint32_t slot) {
  for (const Run& run : endpoint.runs) {
    for (uint32_t number = run.first; number < run.first + run.count; ++number) {
      BlockNode& node = nodes_[number];
      const uint32_t before = node.owners.load(std::memory_order_relaxed);
      if (before == 0) continue;
      const uint32_t after = owners_.drop(before, slot);
      if (after == before) continue;
      node.owners.store(after, std::memory_order_release);
      if (after != 0) continue;
      ++unowned_;
      vacate(number, false);
    }
  }
  run_bytes_ -= std::exchange(endpoint.runs, {}).capacity() * sizeof(Run);
  endpoint.run_nodes = 0;
  holdings_ -= std::exchange(endpoint.holdings, 0);
}

// ---- room

/// Drops a block that was not stored or used lately, later blocks of a run before earlier ones.
/// Requires: a node is used.
void PrecisePart::evict_one() {
  uint32_t victim = 0;
  for (size_t looks = 0; victim == 0 || looks < kLooks; ++looks) {
    hand_ = hand_ <= 1 ? nodes_.end() - 1 : hand_ - 1;
    BlockNode& node = nodes_[hand_];
    if (node.key.load(std::memory_order_relaxed) == 0) continue;
    const uint32_t link = node.link.load(std::memory_order_relaxed);
    const bool recent = link & BlockNode::kRecent;
    if (!recent || victim == 0) victim = hand_;
    if (!recent) break;
    node.link.store(link & ~BlockNode::kRecent, std::memory_order_release);
  }
  BlockNode& node = nodes_[victim];
  const uint32_t owners = node.owners.load(std::memory_order_relaxed);
  if (owners == 0) return free_node(victim);
  node.owners.store(0, std::memory_order_release);
  owners_.drop_all(owners);
  ++unowned_;
  free_node(victim);
  ++evicted_;
  for (const uint32_t holding : owners_.read(owners)) {
    const uint32_t slot = Holding::slot(holding);
    Endpoint& endpoint = *endpoints_[slot].load(std::memory_order_relaxed);
    --endpoint.holdings;
    --holdings_;
    keep_runs_short(endpoint, slot);
  }
}

size_t PrecisePart::bytes() const {
  mutex_.assume_held();
  return nodes_.bytes() + by_key_.bytes() + by_engine_key_.bytes() + owners_.bytes() + run_bytes_ +
         (aliases_.size() + span_keys_) * kAliasBytes;
}

/// What grows with the holders of blocks makes room by dropping blocks, no more than came in twice.
void PrecisePart::keep_within_bytes(size_t stored) {
  if (bytes_max_ == 0) return;
  blocks_limit_ = may_grow(bytes_max_ / 8) ? blocks_max_ : std::max<size_t>(nodes_.used(), 1);
  for (size_t i = 0; i < 2 * stored && bytes() > bytes_max_ && nodes_.used() > 1; ++i) {
    evict_one();
    blocks_limit_ = std::max<size_t>(nodes_.used(), 1);
  }
}

size_t PrecisePart::holdings_of(const Holder& holder) const {
  const MutexLock lock(mutex_);
  const Endpoint* at = endpoints_[holder.slot].load(std::memory_order_relaxed);
  return at && at->generation.load(std::memory_order_relaxed) == holder.generation ? at->holdings
                                                                                   : 0;
}

void PrecisePart::add_stats(PreciseIndexStats& stats) const {
  const MutexLock lock(mutex_);
  stats.blocks += nodes_.used() - unowned_;
  stats.remembered += unowned_;
  stats.holdings += holdings_;
  stats.bytes += bytes();
  stats.evicted += evicted_;
}

}  // namespace llmd::kv
