#pragma once

#include "base/keyed_hash.h"
#include "base/limits.h"
#include "base/mutex.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

/// Which endpoint was sent which prompt blocks: the router's own guess at the caches of the fleet.
///
/// Two views of one relation (block, endpoint):
///
///   by block      shards of hash tables: block -> bit set over endpoint slots. Lookups read it
///                 without locks; a shard's mutex orders its writers.
///   by endpoint   one exact LRU of blocks per endpoint under a mutex of its own: bounds the
///                 endpoint's share and makes purging it cost no more than it holds.
///
/// A block's hash stands for the whole prompt up to it (block_hash.h), so chains that share a block
/// share what is before it. With invariant 3 an endpoint that holds a block of a chain then holds
/// all before it, and along a chain holders only become fewer: a look-up need not read every block.
///
/// Invariants (checked by check()):
///   1. Bit s of block h is set exactly when h is in the LRU of slot s.
///   2. A block stands at most once in its shard, in one of the two buckets that its hash names,
///      and only while at least one of its bits is set.
///   3. An LRU holds at most its capacity. Between commits a block is never older than its
///      successor in a chain, so eviction takes chains from their ends.
///   4. The LRU of a slot belongs to one generation; commits of a purged or older generation change
///      nothing.
///   5. A table is never changed in place once replaced: readers may finish on it. A replacement
///      has twice the buckets or about twice the words per block, so all replaced tables together
///      are no larger than the current one.
///
/// A lookup that runs beside a writer may miss a block that is being moved between its buckets, and
/// never sees bits of another block: the key is read again after the bits.
namespace llmd::kv {

/// An endpoint as the index knows it.
struct BlockOwner {
  uint32_t slot = 0;
  uint64_t generation = 0;
  size_t capacity = 0;  // blocks; fixed when the generation is first seen
};

/// Threading: all methods from any thread. Memory: grows with what is held; per block 16 bytes for
/// fleets up to 64 slots, 32 up to 192, 64 up to 448, and so on, at loads of 40 to 85 %; per
/// endpoint and block 32 bytes.
class ApproxIndex {
 public:
  explicit ApproxIndex(const HashSecret& secret = process_secret());
  ~ApproxIndex();
  ApproxIndex(const ApproxIndex&) = delete;
  ApproxIndex& operator=(const ApproxIndex&) = delete;

  /// Adds to matched[slot] how many blocks from the chain's start the endpoint of that slot holds
  /// without a gap; slots beyond `matched` are left out. Does not make blocks recent.
  /// Cost: lock-free, no allocation; two blocks are read when all who hold the first hold the last,
  /// about log2(chain) more for each length at which holders end, and never one twice. A block is
  /// up to four cache lines.
  void match(std::span<const uint64_t> chain, std::span<uint32_t> matched) const;

  /// Records that `owner` now holds the chain. Of a chain longer than its capacity it holds the
  /// beginning. Cost: a mutex per endpoint, and one per block that it did not hold yet. Blocks that
  /// it got together are made recent together, in order of memory.
  void commit(const BlockOwner& owner, std::span<const uint64_t> chain);

  /// Forgets what the endpoint holds, for good: late commits of this generation have no effect.
  void purge(uint32_t slot, uint64_t generation);

  /// Blocks that the endpoint of this slot holds; 0 for another generation than the one it has.
  /// Cost: a mutex.
  size_t blocks_of(uint32_t slot, uint64_t generation) const;

  /// Pairs of block and endpoint.
  size_t size() const { return size_.load(std::memory_order_relaxed); }
  /// Blocks left out because their buckets were full while the table was nearly empty: only hashes
  /// made for the purpose do that.
  uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }
  /// Bytes of the current and of the replaced tables.
  size_t table_bytes() const;

  /// What is wrong with the invariants; "" when they hold. Requires: no writers meanwhile.
  std::string check() const;

 private:
  struct Holder;
  class Search;
  struct Shard;

  /// What stands for `block` inside: clients choose prompts and so blocks, but not places in
  /// tables. Key 0 marks free ways.
  uint64_t key_of(uint64_t block) const {
    const uint64_t key = keyed_hash(block, secret_);
    return key == 0 ? 1 : key;
  }
  Holder& holder_of(uint32_t slot);
  void clear(Holder& holder, uint32_t slot);
  void add(Holder& holder, uint32_t slot, uint64_t block);
  void prefetch_oldest(const Holder& holder) const;
  std::string check_holders(size_t& held) const;

  static constexpr size_t kShards = 64;

  const HashSecret secret_;
  std::unique_ptr<Shard[]> shards_;
  std::array<std::atomic<Holder*>, limits::kEndpointsMax> holders_{};
  Mutex making_holder_;
  std::atomic<size_t> size_{0};
  std::atomic<uint64_t> refused_{0};
};

}  // namespace llmd::kv
