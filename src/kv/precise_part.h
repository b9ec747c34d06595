#pragma once

#include "block_nodes.h"
#include "block_table.h"
#include "epochs.h"
#include "owner_sets.h"

#include "base/mutex.h"
#include "kv/precise_index.h"

#include <boost/unordered/unordered_flat_map.hpp>

namespace llmd::kv {

/// One part of the index, of the endpoints that are its. Its structure and its invariants stand in
/// kv/precise_index.h.
/// Threading: as PreciseIndex; reading (node_of, nodes, owners, generation_of) inside an
/// Epochs::Reader.
class PrecisePart {
 public:
  /// Blocks that are remembered without holder, at most; the oldest are forgotten.
  static constexpr size_t kRememberedMax = size_t{1} << 16;
  static constexpr size_t kRunsSlack = 1024;

  PrecisePart(Epochs& epochs, const PreciseIndexOptions& options, const HashSecret& secret);
  ~PrecisePart();

  void store(const BlockRun& run);
  /// Returns how many blocks; the engine keys that are not known here come behind `unknown`.
  size_t store_known(const Holder& holder, const Place& place,
                     std::span<const uint64_t> engine_keys, std::vector<uint64_t>& unknown);
  struct Removal {
    std::vector<uint64_t> unknown;  // keys
    size_t copies = 0;              // blocks of which only a copy went
  };
  Removal remove(const Holder& holder, const Place& place, std::span<const uint64_t> engine_keys);
  void remove_keys(const Holder& holder, const Place& place, std::span<const uint64_t> keys);
  void clear(const Holder& holder, bool for_good);
  /// From now on every block is found by its request key alone. Cost: once, in proportion to the
  /// blocks.
  void enter_all();
  /// The request keys of an engine key, in the order of their chain; none: unknown.
  std::vector<uint64_t> request_keys(uint64_t engine_key) const;
  size_t holdings_of(const Holder& holder) const;
  void add_stats(PreciseIndexStats& stats) const;
  std::string check() const;

  // For readers.
  void prefetch(uint64_t key) const { by_key_.prefetch(hash_of(key)); }
  /// An entry that may be the key's; 0: surely none.
  uint32_t guess(uint64_t key) const { return by_key_.guess(hash_of(key)); }
  uint32_t entry_of(uint64_t key) const { return entry_of(key, hash_of(key)); }
  /// By looking at all nodes if it is no entry, for debug pages.
  uint32_t find_slowly(uint64_t key) const;
  const BlockNodes& nodes() const { return nodes_; }
  const OwnerSets& owners() const { return owners_; }
  /// 0: nothing is known of the slot.
  uint64_t generation_of(uint32_t slot) const {
    const Endpoint* at = endpoints_[slot].load(std::memory_order_acquire);
    return at ? at->generation.load(std::memory_order_acquire) : 0;
  }

 private:
  struct Run {
    uint32_t first;
    uint32_t count;
  };
  struct Endpoint {
    std::atomic<uint64_t> generation{0};
    uint64_t purged = 0;  // this generation and older ones are gone
    size_t holdings = 0;
    std::vector<Run> runs;
    size_t run_nodes = 0;  // in all runs
  };
  /// Who stores or removes, for the time of a batch.
  struct Writer {
    Endpoint* endpoint;
    uint32_t who;
    bool count_again = true;
  };
  struct Stored {
    uint64_t key;
    uint64_t hash;
    uint64_t engine_key;  // 0: none
    uint64_t engine_hash;
  };

  uint64_t hash_of(uint64_t key) const { return keyed_hash(key, secret_); }
  uint64_t key_of(uint32_t number) const {
    return nodes_[number].key.load(std::memory_order_acquire);
  }
  uint32_t entry_of(uint64_t key, uint64_t hash) const {
    return by_key_.find(hash, [&](uint32_t number) { return key_of(number) == key; });
  }
  /// 0: the link of the block before leads to another one.
  uint32_t linked_from(uint32_t previous, uint64_t key) const {
    const uint32_t next = previous == 0 ? 0 : nodes_[previous].successor();
    return next != 0 && key_of(next) == key ? next : 0;
  }
  uint32_t find(uint64_t key, uint32_t previous) const {
    const uint32_t linked = linked_from(previous, key);
    return linked != 0 ? linked : entry_of(key);
  }
  uint32_t node_with(uint64_t engine_key, uint64_t hash) const {
    return by_engine_key_.find(
        hash, [&](uint32_t number) { return nodes_[number].engine_key == engine_key; });
  }
  struct KeyHash;
  struct EngineKeyHash;

  Endpoint* present(const Holder& holder) LLMD_REQUIRES(mutex_);
  void clear_holdings(Endpoint& endpoint, uint32_t slot) LLMD_REQUIRES(mutex_);
  void reclaim() LLMD_REQUIRES(mutex_);

  uint32_t store_slice(const Writer& writer, std::span<const uint64_t> keys,
                       std::span<const uint64_t> engine_keys, uint32_t previous)
      LLMD_REQUIRES(mutex_);
  uint32_t store_one(const Writer& writer, const Stored& block, uint32_t previous)
      LLMD_REQUIRES(mutex_);
  uint32_t node_before(uint32_t was, uint64_t key, uint64_t engine_key) LLMD_REQUIRES(mutex_);
  uint32_t create(const Stored& block, uint32_t previous, uint32_t owners) LLMD_REQUIRES(mutex_);
  void hold(const Writer& writer, uint32_t number) LLMD_REQUIRES(mutex_);
  bool link(uint32_t previous, uint32_t number) LLMD_REQUIRES(mutex_);
  void enter(uint32_t number) LLMD_REQUIRES(mutex_);
  void enter_every() LLMD_REQUIRES(mutex_);
  void note_run(Endpoint& endpoint, uint32_t node) LLMD_REQUIRES(mutex_);
  void keep_runs_short(Endpoint& endpoint, uint32_t slot) LLMD_REQUIRES(mutex_);
  void map_engine_key(uint32_t node, const Stored& block, uint32_t mapped) LLMD_REQUIRES(mutex_);
  void map_aliases(std::span<const uint64_t> keys, std::span<const uint64_t> engine_keys)
      LLMD_REQUIRES(mutex_);
  void forget_engine_key(uint64_t engine_key, uint64_t hash, uint32_t number) LLMD_REQUIRES(mutex_);
  void sweep_aliases() LLMD_REQUIRES(mutex_);

  void remove_slice(const Writer& writer, std::span<const uint64_t> engine_keys,
                    std::vector<uint64_t>& unknown) LLMD_REQUIRES(mutex_);
  bool remove_alias(const Writer& writer, uint64_t engine_key) LLMD_REQUIRES(mutex_);
  /// Whether nobody holds the block any more.
  bool take(const Writer& writer, uint32_t node, bool forget) LLMD_REQUIRES(mutex_);
  void vacate(uint32_t node, bool forget) LLMD_REQUIRES(mutex_);
  void free_node(uint32_t node) LLMD_REQUIRES(mutex_);
  void evict_one() LLMD_REQUIRES(mutex_);
  bool may_grow(size_t by) const { return bytes_max_ == 0 || bytes() + by <= bytes_max_; }
  size_t bytes() const;
  void keep_within_bytes(size_t stored) LLMD_REQUIRES(mutex_);

  std::string check_nodes(boost::unordered_flat_map<uint32_t, size_t>& sets,
                          std::vector<size_t>& holdings) const;
  std::string check_endpoints(const std::vector<size_t>& holdings) const;

  Epochs& epochs_;
  const HashSecret secret_;
  const size_t blocks_max_;
  const size_t bytes_max_;

  mutable Mutex mutex_;  // of writers, and of what has no reader
  BlockNodes nodes_;
  BlockTable by_key_;  // of entries
  BlockTable by_engine_key_;
  OwnerSets owners_;
  std::array<std::atomic<Endpoint*>, limits::kEndpointsMax> endpoints_{};

  // Engine keys that are not the one of their node: a second engine's with another hash seed, or
  // those of engine blocks of another size.
  boost::unordered_flat_map<uint64_t, uint64_t> aliases_ LLMD_GUARDED_BY(mutex_);
  boost::unordered_flat_map<uint64_t, std::vector<uint64_t>> spans_ LLMD_GUARDED_BY(mutex_);
  size_t sweep_at_ LLMD_GUARDED_BY(mutex_);
  size_t span_keys_ LLMD_GUARDED_BY(mutex_) = 0;

  bool all_entered_ LLMD_GUARDED_BY(mutex_) = false;
  std::deque<uint32_t> remembered_ LLMD_GUARDED_BY(mutex_);  // nodes that had no owner once
  size_t blocks_limit_ LLMD_GUARDED_BY(mutex_);  // below blocks_max while the memory is used up
  uint32_t hand_ LLMD_GUARDED_BY(mutex_) = 0;    // the node that was last looked at for eviction
  size_t unowned_ LLMD_GUARDED_BY(mutex_) = 0;   // nodes without owners
  size_t run_bytes_ LLMD_GUARDED_BY(mutex_) = 0;
  size_t holdings_ LLMD_GUARDED_BY(mutex_) = 0;
  size_t copies_taken_ LLMD_GUARDED_BY(mutex_) = 0;  // removals that left the endpoint a copy
  uint64_t evicted_ LLMD_GUARDED_BY(mutex_) = 0;
};

}  // namespace llmd::kv
