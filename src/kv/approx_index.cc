#include "kv/approx_index.h"

#include "block_lru.h"
#include "holder_table.h"

#include "base/check.h"

#include <algorithm>
#include <bit>
#include <vector>

namespace llmd::kv {
namespace {

constexpr size_t kFirstBuckets = 4;
/// Blocks whose cache lines are on their way while one is added: about as many lines as a core can
/// have outstanding, at up to four a block.
constexpr size_t kAhead = 10;
/// A table is replaced by one of twice the size above this load, or when a block finds no place
/// while the load is above the lower bound; below it the block is refused.
constexpr double kLoadMax = 0.85;
constexpr double kLoadToGrow = 0.25;
/// Words per block: with its key a power of two, but for the last.
constexpr std::array<size_t, 6> kWordSteps = {1, 3, 7, 15, 31, HolderTable::kWordsMax};

static_assert(limits::kEndpointsMax <= HolderTable::kWordsMax * 64);

size_t words_for(uint32_t slot) {
  return *std::ranges::find_if(kWordSteps, [&](size_t words) { return slot / 64 < words; });
}

/// Adds `blocks` to matched[slot] of every set bit.
void credit(uint64_t bits, size_t word, uint32_t blocks, std::span<uint32_t> matched) {
  for (; bits != 0; bits &= bits - 1)
    matched[word * 64 + static_cast<size_t>(std::countr_zero(bits))] += blocks;
}

}  // namespace

struct alignas(64) ApproxIndex::Shard {
  Shard() {
    mutex.assume_held();  // nobody else has it yet
    publish(std::make_unique<HolderTable>(kFirstBuckets, kWordSteps[0]));
  }

  bool set(uint64_t key, uint32_t slot) {
    const MutexLock lock(mutex);
    HolderTable* at = current();
    if (slot / 64 >= at->words()) {
      // The same buckets hold the same blocks, so this cannot fail for lack of room … unless the
      // order of moves differs; then the blocks spread over twice as many.
      if (!replace(at->buckets(), words_for(slot)) && !replace(at->buckets() * 2, words_for(slot)))
        return false;
    } else if (load(*at) > kLoadMax) {
      replace(at->buckets() * 2, at->words());
    }
    if (current()->set(key, slot) == HolderTable::Set::kDone) return true;
    at = current();
    return load(*at) > kLoadToGrow && replace(at->buckets() * 2, at->words()) &&
           current()->set(key, slot) == HolderTable::Set::kDone;
  }

  void clear(uint64_t key, uint32_t slot) {
    const MutexLock lock(mutex);
    current()->clear(key, slot);
  }

  const HolderTable& read() const { return *table.load(std::memory_order_acquire); }

  std::atomic<const HolderTable*> table{nullptr};
  mutable Mutex mutex;
  // The last is current.
  std::vector<std::unique_ptr<HolderTable>> tables LLMD_GUARDED_BY(mutex);

 private:
  static double load(const HolderTable& t) {
    return static_cast<double>(t.size()) / static_cast<double>(t.buckets() * HolderTable::kWays);
  }
  HolderTable* current() const LLMD_REQUIRES(mutex) { return tables.back().get(); }
  void publish(std::unique_ptr<HolderTable> next) LLMD_REQUIRES(mutex) {
    tables.push_back(std::move(next));
    table.store(tables.back().get(), std::memory_order_release);
  }
  bool replace(size_t buckets, size_t words) LLMD_REQUIRES(mutex) {
    auto next = current()->resized(buckets, words);
    if (!next) return false;
    publish(std::move(next));
    return true;
  }
};

struct ApproxIndex::Holder {
  Mutex mutex;
  uint64_t generation LLMD_GUARDED_BY(mutex) = 0;
  uint64_t purged LLMD_GUARDED_BY(mutex) = 0;  // this generation and older ones are gone
  size_t capacity LLMD_GUARDED_BY(mutex) = 0;
  BlockLru blocks LLMD_GUARDED_BY(mutex);
};

ApproxIndex::ApproxIndex(const HashSecret& secret)
    : secret_(secret), shards_(std::make_unique<Shard[]>(kShards)) {}

ApproxIndex::~ApproxIndex() {
  for (auto& holder : holders_) delete holder.load();
}

/// Looks a chain up from both ends: between two places with the same holders nothing can change, so
/// only the gaps across which holders are lost are halved, until each loss has its place.
class ApproxIndex::Search {
 public:
  Search(const ApproxIndex& index, std::span<const uint64_t> chain, std::span<uint32_t> matched)
      : index_(index), chain_(chain), matched_(matched), width_((matched.size() + 63) / 64) {}

  void operator()() {
    const size_t last = chain_.size() - 1;
    prefetch(0);
    prefetch(last);
    prefetch(last / 2);
    Holders at_first;
    Holders at_last;
    Holders nobody = {};
    const size_t over = width_ * 64 - matched_.size();
    std::fill_n(at_last, width_, ~uint64_t{0});
    at_last[width_ - 1] >>= over;
    if (!read(0, at_last, nobody, at_first)) return;
    read(last, at_first, nobody, at_last);
    halve(0, at_first, last, at_last);
    for (size_t w = 0; w < width_; ++w)
      credit(at_last[w], w, static_cast<uint32_t>(chain_.size()), matched_);
  }

 private:
  using Holders = uint64_t[HolderTable::kWordsMax];

  const Shard& shard_of(uint64_t key) const { return index_.shards_[key % kShards]; }

  void prefetch(size_t place) const {
    const uint64_t key = index_.key_of(chain_[place]);
    shard_of(key).read().prefetch(key);
  }

  /// The block's holders, but no more than `most` and no less than `least`, whatever a commit or an
  /// eviction that is under way leaves open. False: there are none.
  bool read(size_t place, const Holders& most, const Holders& least, Holders& out) const {
    const uint64_t key = index_.key_of(chain_[place]);
    const HolderTable& table = shard_of(key).read();
    Holders bits;
    const size_t words = table.read(key, bits) ? table.words() : 0;
    uint64_t any = 0;
    for (size_t w = 0; w < width_; ++w) {
      out[w] = (w < words ? bits[w] & most[w] : 0) | least[w];
      any |= out[w];
    }
    return any != 0;
  }

  void halve(size_t low, const Holders& at_low, size_t high, const Holders& at_high) {
    if (std::equal(at_low, at_low + width_, at_high)) return;
    if (high - low == 1) {
      for (size_t w = 0; w < width_; ++w)
        credit(at_low[w] & ~at_high[w], w, static_cast<uint32_t>(high), matched_);
      return;
    }
    const size_t middle = low + (high - low) / 2;
    prefetch(low + (middle - low) / 2);
    prefetch(middle + (high - middle) / 2);
    Holders at_middle;
    read(middle, at_low, at_high, at_middle);
    halve(low, at_low, middle, at_middle);
    halve(middle, at_middle, high, at_high);
  }

  const ApproxIndex& index_;
  const std::span<const uint64_t> chain_;
  const std::span<uint32_t> matched_;
  const size_t width_;  // words of a set of holders that count
};

void ApproxIndex::match(std::span<const uint64_t> chain, std::span<uint32_t> matched) const {
  matched = matched.first(std::min(matched.size(), limits::kEndpointsMax));
  if (!chain.empty() && !matched.empty()) Search(*this, chain, matched)();
}

void ApproxIndex::commit(const BlockOwner& owner, std::span<const uint64_t> chain) {
  CHECK(owner.slot < limits::kEndpointsMax);
  Holder& holder = holder_of(owner.slot);
  const MutexLock lock(holder.mutex);
  if (owner.generation <= holder.purged || owner.generation < holder.generation) return;
  if (owner.generation != holder.generation) {
    clear(holder, owner.slot);
    holder.generation = owner.generation;
    holder.capacity = owner.capacity;
  }
  chain = chain.first(std::min(chain.size(), holder.capacity));
  const auto key_at = [&](size_t i) { return key_of(chain[i]); };
  for (size_t i = chain.size(); i > 0;) {
    if (const size_t run = holder.blocks.promote_run(i, key_at); run > 0) {
      i -= run;
      continue;
    }
    --i;
    if (i >= kAhead) holder.blocks.prefetch_cell(key_at(i - kAhead));
    if (i >= kAhead / 2) holder.blocks.prefetch_node(key_at(i - kAhead / 2));
    add(holder, owner.slot, key_at(i));
  }
}

void ApproxIndex::add(Holder& holder, uint32_t slot, uint64_t key) {
  holder.mutex.assume_held();
  if (holder.blocks.size() == holder.capacity) {
    const uint64_t oldest = holder.blocks.oldest();
    shards_[oldest % kShards].clear(oldest, slot);
    holder.blocks.erase(oldest);
    size_.fetch_sub(1, std::memory_order_relaxed);
    prefetch_oldest(holder);
  }
  if (!shards_[key % kShards].set(key, slot)) {
    refused_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  holder.blocks.insert(key);
  size_.fetch_add(1, std::memory_order_relaxed);
}

/// A full endpoint that is given new blocks drops one after the other: the next is fetched
/// meanwhile.
void ApproxIndex::prefetch_oldest(const Holder& holder) const {
  holder.mutex.assume_held();
  if (holder.blocks.size() == 0) return;
  const uint64_t next = holder.blocks.oldest();
  shards_[next % kShards].read().prefetch(next);
  holder.blocks.prefetch_cell(next);
}

void ApproxIndex::purge(uint32_t slot, uint64_t generation) {
  CHECK(slot < limits::kEndpointsMax);
  Holder& holder = holder_of(slot);
  const MutexLock lock(holder.mutex);
  holder.purged = std::max(holder.purged, generation);
  if (holder.generation <= generation) clear(holder, slot);
}

void ApproxIndex::clear(Holder& holder, uint32_t slot) {
  holder.mutex.assume_held();
  holder.blocks.each([&](uint64_t key) { shards_[key % kShards].clear(key, slot); });
  size_.fetch_sub(holder.blocks.size(), std::memory_order_relaxed);
  holder.blocks.clear();
}

ApproxIndex::Holder& ApproxIndex::holder_of(uint32_t slot) {
  if (Holder* holder = holders_[slot].load(std::memory_order_acquire)) return *holder;
  const MutexLock lock(making_holder_);
  if (Holder* holder = holders_[slot].load(std::memory_order_acquire)) return *holder;
  auto* holder = new Holder;
  holders_[slot].store(holder, std::memory_order_release);
  return *holder;
}

size_t ApproxIndex::blocks_of(uint32_t slot, uint64_t generation) const {
  CHECK(slot < limits::kEndpointsMax);
  Holder* holder = holders_[slot].load(std::memory_order_acquire);
  if (!holder) return 0;
  const MutexLock lock(holder->mutex);
  return holder->generation == generation ? holder->blocks.size() : 0;
}

size_t ApproxIndex::table_bytes() const {
  size_t bytes = 0;
  for (size_t i = 0; i < kShards; ++i) {
    const MutexLock lock(shards_[i].mutex);
    for (const auto& table : shards_[i].tables) bytes += table->bytes();
  }
  return bytes;
}

std::string ApproxIndex::check_holders(size_t& held) const {
  std::string wrong;
  for (uint32_t slot = 0; slot < holders_.size(); ++slot) {
    const Holder* holder = holders_[slot].load();
    if (!holder) continue;
    holder->mutex.assume_held();  // no writers
    if (holder->blocks.size() > holder->capacity) wrong = "an endpoint is over its capacity";
    if (holder->generation <= holder->purged && holder->blocks.size() > 0)
      wrong = "a purged endpoint holds blocks";
    size_t listed = 0;
    holder->blocks.each([&](uint64_t key) {
      uint64_t bits[HolderTable::kWordsMax] = {};
      ++listed;
      if (!shards_[key % kShards].read().read(key, bits) || !(bits[slot / 64] >> slot % 64 & 1))
        wrong = "a listed block lacks its bit";
    });
    if (listed != holder->blocks.size()) wrong = "an LRU list and its table disagree";
    held += listed;
  }
  return wrong;
}

std::string ApproxIndex::check() const {
  size_t held = 0;
  size_t set = 0;
  std::string wrong = check_holders(held);
  for (size_t i = 0; i < kShards; ++i) {
    const HolderTable& table = shards_[i].read();
    shards_[i].mutex.assume_held();  // no writers
    size_t blocks = 0;
    table.each([&](uint64_t key, const std::atomic<uint64_t>* bits) {
      int of_block = 0;
      for (size_t w = 0; w < table.words(); ++w) of_block += std::popcount(bits[w].load());
      if (of_block == 0) wrong = "a block without holders";
      if (key % kShards != i || !table.stands_right(key)) wrong = "a block in the wrong place";
      set += static_cast<size_t>(of_block);
      ++blocks;
    });
    if (blocks != table.size()) wrong = "a table miscounts its blocks";
    size_t replaced = 0;
    for (const auto& old : shards_[i].tables) replaced += old->bytes();
    if (replaced > 3 * table.bytes()) wrong = "replaced tables outgrow the current one";
  }
  if (held != set) wrong = "bits and lists disagree";
  if (held != size()) wrong = "size() disagrees";
  return wrong;
}

}  // namespace llmd::kv
