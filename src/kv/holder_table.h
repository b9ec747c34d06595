#pragma once

#include "table_memory.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace llmd::kv {

/// block -> bit set over endpoint slots, for one writer at a time and any number of readers.
///
/// Buckets of four ways; a block lives in one of two buckets. A bucket is four keys followed by
/// four bit sets of `words` words each, so with one word it is a cache line. Key 0 marks a free
/// way. A way changes hands as: key to 0, bits, new key; readers read the key, the bits, the key
/// again. Threading: const methods from any thread beside one writer. The pointer must come from an
/// acquire load.
class HolderTable {
 public:
  static constexpr size_t kWays = 4;
  static constexpr size_t kWordsMax = 64;

  HolderTable(size_t buckets, size_t words);  // buckets: a power of two

  size_t buckets() const { return mask_ + 1; }
  size_t words() const { return words_; }
  size_t size() const { return size_; }
  size_t bytes() const { return buckets() * bucket_cells_ * sizeof(uint64_t); }

  void prefetch(uint64_t key) const {
    prefetch_bucket(first(key));
    prefetch_bucket(second(key));
  }

  /// Copies the block's bits to `bits` (words() of them); false: nobody holds it.
  bool read(uint64_t key, uint64_t* bits) const {
    return read_in(first(key), key, bits) || read_in(second(key), key, bits);
  }

  enum class Set : uint8_t { kDone, kFull };
  /// Requires: slot / 64 < words().
  Set set(uint64_t key, uint32_t slot);
  /// No effect when the bit is not set.
  void clear(uint64_t key, uint32_t slot);

  /// A table with the same content and other dimensions, or null when a block finds no place.
  std::unique_ptr<HolderTable> resized(size_t buckets, size_t words) const;

  /// Calls visit(key, bits) for every block. Requires: no writer.
  template <class Visit>
  void each(Visit visit) const {
    for (size_t bucket = 0; bucket < buckets(); ++bucket)
      for (size_t way = 0; way < kWays; ++way)
        if (const uint64_t key = keys(bucket)[way].load(std::memory_order_relaxed); key != 0)
          visit(key, bits_of(keys(bucket), way));
  }
  /// Whether `key` belongs in the bucket where it stands. Requires: it is there.
  bool stands_right(uint64_t key) const { return find(key).cells != nullptr; }

 private:
  using Cell = std::atomic<uint64_t>;
  struct Place {
    Cell* cells = nullptr;  // of the bucket
    size_t way = 0;
  };

  size_t first(uint64_t key) const { return (key >> 8) & mask_; }
  size_t second(uint64_t key) const {
    const size_t bucket = (key * 0x9e3779b97f4a7c15) >> 32 & mask_;
    return bucket == first(key) ? (bucket ^ 1) & mask_ : bucket;
  }
  Cell* keys(size_t bucket) const { return cells_.get() + bucket * bucket_cells_; }
  Cell* bits_of(Cell* bucket, size_t way) const { return bucket + kWays + way * words_; }

  void prefetch_bucket(size_t bucket) const {
    constexpr size_t kLine = 64 / sizeof(uint64_t);
    const Cell* at = keys(bucket);
    __builtin_prefetch(at);
    if (bucket_cells_ > kLine) __builtin_prefetch(at + kLine);
  }

  bool read_in(size_t bucket, uint64_t key, uint64_t* bits) const {
    Cell* at = keys(bucket);
    for (size_t way = 0; way < kWays; ++way) {
      if (at[way].load(std::memory_order_acquire) != key) continue;
      const Cell* from = bits_of(at, way);
      for (size_t i = 0; i < words_; ++i) bits[i] = from[i].load(std::memory_order_acquire);
      if (at[way].load(std::memory_order_relaxed) == key) return true;
    }
    return false;
  }

  Place find(uint64_t key) const;
  Place free_way(size_t bucket) const;
  Place make_room(size_t bucket);
  void fill(Place place, uint64_t key, const uint64_t* bits);
  void copy_bits(Place place, uint64_t* bits) const;
  bool place_copy(uint64_t key, const uint64_t* bits);

  const size_t mask_;
  const size_t words_;
  const size_t bucket_cells_;
  size_t size_ = 0;  // blocks; the writer's
  TableMemory<Cell> cells_;
};

}  // namespace llmd::kv
