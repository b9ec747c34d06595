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
      blocks_max_(
          std::clamp<size_t>(options.blocks_max / options.parts, 1, BlockNodes::kNodesMax / 2)),
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
    if (at == 0)
      previous = node_before(0, run.parent, run.parent_engine_key);
    else
      previous = node_before(previous, run.keys[at - 1], one_to_one ? run.engine_keys[at - 1] : 0);
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

/// The node of a block that others are going to stand behind; 0: there is none. `was` had it when
/// the mutex was held before.
uint32_t PrecisePart::node_before(uint32_t was, uint64_t key, uint64_t engine_key) {
  if (key == 0) return 0;
  if (was != 0 && key_of(was) == key) return was;
  if (engine_key != 0) {
    const uint32_t number = node_with(engine_key, hash_of(engine_key));
    if (number != 0 && key_of(number) == key) return number;
  } else if (entry_of(key) == 0) {
    enter_every();
  }
  return entry_of(key);
}

/// Returns the node of the last block.
uint32_t PrecisePart::store_slice(const Writer& writer, std::span<const uint64_t> keys,
                                  std::span<const uint64_t> engine_keys, uint32_t previous) {
  const bool map = !engine_keys.empty();
  Stored ahead[kAhead];
  for (size_t next = 0; next < keys.size() + kAhead; ++next) {
    Stored& block = ahead[next % kAhead];
    if (next >= kAhead) {
      previous = block.key == 0 ? 0 : store_one(writer, block, previous);
    }
    if (next >= keys.size()) continue;
    block = {.key = keys[next], .hash = hash_of(keys[next])};
    by_key_.prefetch(block.hash);
    if (!map) continue;
    block.engine_key = engine_keys[next];
    block.engine_hash = hash_of(block.engine_key);
    by_engine_key_.prefetch(block.engine_hash);
  }
  return previous;
}

/// Returns the block's node.
uint32_t PrecisePart::store_one(const Writer& writer, const Stored& block, uint32_t previous) {
  uint32_t number = linked_from(previous, block.key);
  if (number != 0 && nodes_[number].engine_key == block.engine_key) {
    hold(writer, number);
    return number;
  }
  uint32_t mapped = block.engine_key == 0 ? 0 : node_with(block.engine_key, block.engine_hash);
  if (number == 0)
    number = mapped != 0 && key_of(mapped) == block.key ? mapped : entry_of(block.key, block.hash);
  if (number == 0) {
    number = create(block, previous, owners_.add(0, writer.who, writer.count_again));
    ++writer.endpoint->holdings;
    ++holdings_;
    note_run(*writer.endpoint, number);
    if (mapped != 0) mapped = node_with(block.engine_key, block.engine_hash);  // if not evicted
  } else {
    hold(writer, number);
    link(previous, number);
  }
  if (block.engine_key != 0 && mapped != number) map_engine_key(number, block, mapped);
  return number;
}

void PrecisePart::hold(const Writer& writer, uint32_t number) {
  BlockNode& node = nodes_[number];
  const uint32_t before = node.owners.load(std::memory_order_relaxed);
  const uint32_t after = owners_.add(before, writer.who, writer.count_again);
  if (after != before) {
    node.owners.store(after, std::memory_order_release);
    if (before == 0) --unowned_;
    if (owners_.size_of(after) != owners_.size_of(before)) {
      ++writer.endpoint->holdings;
      ++holdings_;
      note_run(*writer.endpoint, number);
    }
  }
  node.link.store(node.link.load(std::memory_order_relaxed) | BlockNode::kRecent,
                  std::memory_order_release);
}

uint32_t PrecisePart::create(const Stored& block, uint32_t previous, uint32_t owners) {
  while (nodes_.used() >= blocks_limit_) evict_one();
  const uint32_t number = nodes_.allocate(may_grow(BlockNodes::kGrowth));
  BlockNode& node = nodes_[number];
  node.owners.store(owners, std::memory_order_release);
  node.link.store(BlockNode::kRecent, std::memory_order_release);
  node.key.store(block.key, std::memory_order_release);
  const bool linked = link(previous, number);
  if (!linked || block.engine_key == 0 || all_entered_) enter(number);
  return number;
}

/// Whether the link of the block before leads to the node now; it does not if another block needs
/// it, or if that block had to make room.
bool PrecisePart::link(uint32_t previous, uint32_t number) {
  if (previous == 0 || previous == number || key_of(previous) == 0) return false;
  BlockNode& before = nodes_[previous];
  const uint32_t next = before.successor();
  if (next == number) return true;
  if (next != 0 && key_of(next) != 0 && !nodes_[next].is_entry()) return false;
  const uint32_t flags = before.link.load(std::memory_order_relaxed) & BlockNode::kEntry;
  before.link.store(number | flags | BlockNode::kRecent, std::memory_order_release);
  return true;
}

void PrecisePart::enter(uint32_t number) {
  BlockNode& node = nodes_[number];
  if (node.is_entry()) return;
  const uint64_t hash = hash_of(key_of(number));
  by_key_.insert(hash, number, KeyHash{*this}, may_grow(by_key_.growth(hash)));
  node.link.store(node.link.load(std::memory_order_relaxed) | BlockNode::kEntry,
                  std::memory_order_release);
}

void PrecisePart::enter_every() {
  if (std::exchange(all_entered_, true)) return;
  for (uint32_t number = 1; number < nodes_.end(); ++number)
    if (key_of(number) != 0) enter(number);
}

void PrecisePart::enter_all() {
  const MutexLock lock(mutex_);
  enter_every();
}

size_t PrecisePart::store_known(const Holder& holder, const Place& place,
                                std::span<const uint64_t> engine_keys,
                                std::vector<uint64_t>& unknown) {
  const uint32_t who = Holding::who(holder.slot, code_of(place));
  size_t stored = 0;
  uint32_t before = 0;  // several engine blocks may be one here
  for (size_t at = 0; at < engine_keys.size(); at += kSlice) {
    const auto slice = engine_keys.subspan(at, std::min(kSlice, engine_keys.size() - at));
    const MutexLock lock(mutex_);
    Endpoint* endpoint = present(holder);
    if (endpoint == nullptr) return stored;
    reclaim();
    const auto store_keys = [&](std::span<const uint64_t> keys) {
      mutex_.assume_held();
      for (const uint64_t key : keys) {
        const uint32_t found = entry_of(key);
        if (found != 0 && found == before) continue;
        before = store_one({endpoint, who}, {.key = key, .hash = hash_of(key)}, 0);
        ++stored;
      }
    };
    for (const uint64_t key : slice) by_engine_key_.prefetch(hash_of(key));
    for (const uint64_t key : slice) {
      if (const uint32_t number = node_with(key, hash_of(key)); number != 0) {
        if (number == before) continue;
        hold({endpoint, who}, before = number);
        ++stored;
      } else if (const auto alias = aliases_.find(key); alias != aliases_.end()) {
        store_keys({&alias->second, 1});
      } else if (const auto span = spans_.find(key); span != spans_.end()) {
        store_keys(span->second);
      } else {
        unknown.push_back(key);
      }
    }
    keep_runs_short(*endpoint, holder.slot);
    keep_within_bytes(slice.size());
  }
  return stored;
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

/// `mapped`: the node that has the engine key now; 0: none.
void PrecisePart::map_engine_key(uint32_t number, const Stored& block, uint32_t mapped) {
  BlockNode& node = nodes_[number];
  forget_engine_key(block.engine_key, block.engine_hash, mapped);
  if (node.engine_key == 0) {
    node.engine_key = block.engine_key;
    by_engine_key_.insert(block.engine_hash, number, EngineKeyHash{*this},
                          may_grow(by_engine_key_.growth(block.engine_hash)));
  } else {
    enter_every();
    aliases_[block.engine_key] = block.key;
    sweep_aliases();
  }
}

/// Spec 05 §3.2, for sizes that differ.
void PrecisePart::map_aliases(std::span<const uint64_t> keys,
                              std::span<const uint64_t> engine_keys) {
  enter_every();
  for (const uint64_t engine_key : engine_keys) {
    const uint64_t hash = hash_of(engine_key);
    forget_engine_key(engine_key, hash, node_with(engine_key, hash));
  }
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

void PrecisePart::forget_engine_key(uint64_t engine_key, uint64_t hash, uint32_t number) {
  if (number != 0) {
    by_engine_key_.erase(hash, number);
    nodes_[number].engine_key = 0;
    if (nodes_[number].owners.load(std::memory_order_relaxed) == 0)
      free_node(number);
    else
      enter(number);
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
  const auto gone = [&](uint64_t key) { return entry_of(key) == 0; };
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
  if (const uint32_t number = node_with(engine_key, hash_of(engine_key)); number != 0)
    return {key_of(number)};
  if (const auto alias = aliases_.find(engine_key); alias != aliases_.end()) return {alias->second};
  if (const auto span = spans_.find(engine_key); span != spans_.end()) return span->second;
  return {};
}

uint32_t PrecisePart::find_slowly(uint64_t key) const {
  if (const uint32_t number = entry_of(key); number != 0 || key == 0) return number;
  const MutexLock lock(mutex_);
  for (uint32_t number = 1; number < nodes_.end(); ++number)
    if (key_of(number) == key) return number;
  return 0;
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
    if (const size_t i = at - 2 * kStep; i < count && nodes_[guesses[i]].is_entry())
      prefetch(key_of(guesses[i]));
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
    const uint32_t number = entry_of(key);
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
  uint32_t previous = 0;
  for (size_t at = 0; at < keys.size(); at += kSlice) {
    const MutexLock lock(mutex_);
    Endpoint* endpoint = present(holder);
    if (endpoint == nullptr) return;
    reclaim();
    const auto slice = keys.subspan(at, std::min(kSlice, keys.size() - at));
    uint32_t numbers[kSlice];
    for (size_t i = 0; i < slice.size(); ++i) numbers[i] = previous = find(slice[i], previous);
    // The last first: a block whose predecessor goes must be entered.
    for (size_t i = slice.size(); i-- > 0;)
      if (numbers[i] != 0 && key_of(numbers[i]) == slice[i])
        take({endpoint, who}, numbers[i], false);
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
  if (const uint32_t next = node.successor(); next != 0 && key_of(next) != 0) enter(next);
  if (node.is_entry()) by_key_.erase(hash_of(key_of(number)), number);
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
  // The last first: a block whose predecessor goes must be entered.
  for (size_t i = endpoint.runs.size(); i-- > 0;) {
    const Run run = endpoint.runs[i];
    for (uint32_t number = run.first + run.count; number-- > run.first;) {
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
  stats.entries += by_key_.size();
  stats.holdings += holdings_;
  stats.bytes += bytes();
  stats.evicted += evicted_;
}

}  // namespace llmd::kv
