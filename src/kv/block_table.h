#pragma once

#include "epochs.h"
#include "table_memory.h"

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>

namespace llmd::kv {

/// hash -> number of a node, for one writer at a time and any number of readers.
///
/// A bucket is one cache line: ten numbers with 16 bits of their hashes, and how many numbers went
/// past it because it was full. Such a number stands in one of the next buckets, and a search ends
/// at the first bucket that nothing went past. Numbers never move but when a part is replaced by a
/// larger one, which readers do not notice; the old one is freed when they are through with it.
///
/// Threading: const methods from any thread inside an Epochs::Reader, or from the writer.
class BlockTable {
 public:
  explicit BlockTable(Epochs& epochs);

  size_t size() const { return size_; }
  /// Of the current parts.
  size_t bytes() const { return bytes_; }
  /// Bytes that insert() would add if it must replace a part to make room; 0: there is room.
  size_t growth(uint64_t hash) const {
    const Part& part = parts_[part_of(hash)];
    return part.size < part.size_max ? 0 : grown(part.buckets) * sizeof(Bucket);
  }

  void prefetch(uint64_t hash) const {
    const Bucket* buckets = view(hash).buckets;
    __builtin_prefetch(buckets + home(hash, view(hash).count));
  }

  /// A number that may be that of the hash, without looking at its node; 0: surely none.
  uint32_t guess(uint64_t hash) const {
    return find(hash, [](uint32_t) { return true; });
  }

  /// The first number with this hash for which is_it(number); 0: none.
  template <class IsIt>
  uint32_t find(uint64_t hash, IsIt is_it) const {
    const Place place = locate(hash, is_it);
    return place.bucket ? place.number : 0;
  }

  /// Adds a number; `hash_of(number)` tells the hashes of those that are there. `may_grow` false:
  /// makes no part larger while there is any room. Requires: number > 0.
  template <class HashOf>
  void insert(uint64_t hash, uint32_t number, HashOf hash_of, bool may_grow = true) {
    Part& part = parts_[part_of(hash)];
    if (part.size >= (may_grow ? part.size_max : part.buckets * kSlots)) grow(part, hash_of);
    put(part, hash, number);
    ++part.size;
    ++size_;
  }
  /// Requires: the number is there.
  void erase(uint64_t hash, uint32_t number);

  /// Frees replaced parts that no reader sees any more.
  void reclaim();

  /// What is wrong, or "". Calls visit(number) for all. Requires: no writer.
  template <class Visit, class HashOf>
  std::string check(Visit visit, HashOf hash_of) const;

 private:
  static constexpr size_t kParts = 16;
  static constexpr size_t kSlots = 10;
  static constexpr size_t kTagsAWord = 4;
  static constexpr size_t kPastShift = 32;  // of the count in the third word, above two tags
  static constexpr uint64_t kEach = 0x0001000100010001;

  struct alignas(64) Bucket {
    std::array<std::atomic<uint64_t>, 3> tags;  // 0: free
    std::array<std::atomic<uint32_t>, kSlots> numbers;
  };
  static_assert(sizeof(Bucket) == 64);

  /// What readers see of a part, in front of its buckets.
  struct View {
    const Bucket* buckets;
    size_t count;
  };
  struct Memory {
    TableMemory<Bucket> buckets;
    View view;
  };
  struct Part {
    std::unique_ptr<Memory> memory;
    size_t buckets = 0;
    size_t size = 0;
    size_t size_max = 0;  // it grows beyond
  };
  struct Replaced {
    uint64_t epoch;
    std::unique_ptr<Memory> memory;
  };
  struct Place {
    Bucket* bucket = nullptr;
    size_t slot = 0;
    uint32_t number = 0;
  };

  static size_t part_of(uint64_t hash) { return hash % kParts; }
  static uint64_t tag_of(uint64_t hash) {
    const uint64_t tag = hash >> 8 & 0xffff;
    return tag == 0 ? 1 : tag;
  }
  static size_t home(uint64_t hash, size_t buckets) { return (hash >> 32) * buckets >> 32; }
  static size_t grown(size_t buckets) { return buckets + buckets * 2 / 5 + 1; }
  const View& view(uint64_t hash) const {
    return *views_[part_of(hash)].load(std::memory_order_acquire);
  }

  /// The high bit of each 16-bit lane that equals the tag. Lanes above one that does may be wrong.
  static uint64_t equal_lanes(uint64_t word, uint64_t tag) {
    const uint64_t x = word ^ tag * kEach;
    return (x - kEach) & ~x & kEach << 15;
  }
  static uint64_t equal_tags(uint64_t word, size_t index, uint64_t tag) {
    const uint64_t lanes = equal_lanes(word, tag);
    return index == 2 ? lanes & 0xffffffff : lanes;
  }
  static uint64_t past(const Bucket& bucket) {
    return bucket.tags[2].load(std::memory_order_relaxed) >> kPastShift;
  }

  template <class IsIt>
  Place locate(uint64_t hash, IsIt is_it) const {
    const View& part = view(hash);
    const uint64_t tag = tag_of(hash);
    size_t at = home(hash, part.count);
    for (size_t n = 0; n < part.count; ++n) {
      const Bucket& bucket = part.buckets[at];
      uint64_t last = 0;
      for (size_t i = 0; i < bucket.tags.size(); ++i) {
        last = bucket.tags[i].load(std::memory_order_acquire);
        for (uint64_t lanes = equal_tags(last, i, tag); lanes != 0; lanes &= lanes - 1) {
          const auto lane = static_cast<size_t>(std::countr_zero(lanes)) / 16;
          if ((last >> lane * 16 & 0xffff) != tag) continue;
          const size_t slot = i * kTagsAWord + lane;
          const uint32_t number = bucket.numbers[slot].load(std::memory_order_relaxed);
          if (is_it(number)) return {const_cast<Bucket*>(&bucket), slot, number};
        }
      }
      if (last >> kPastShift == 0) return {};
      at = at + 1 == part.count ? 0 : at + 1;
    }
    return {};
  }

  void put(Part& part, uint64_t hash, uint32_t number);
  static std::unique_ptr<Memory> make(size_t buckets);
  template <class HashOf>
  void grow(Part& part, HashOf hash_of);
  void replace(Part& part, Part next);

  Epochs& epochs_;
  std::array<std::atomic<const View*>, kParts> views_;
  std::array<Part, kParts> parts_;
  std::deque<Replaced> replaced_;
  size_t size_ = 0;
  size_t bytes_ = 0;
};

template <class HashOf>
void BlockTable::grow(Part& part, HashOf hash_of) {
  Part next;
  next.buckets = grown(part.buckets);
  next.memory = make(next.buckets);
  next.size = part.size;
  constexpr size_t kAhead = 8;  // buckets; the nodes of one are on their way while one is copied
  const Bucket* buckets = part.memory->view.buckets;
  for (size_t at = 0; at < part.buckets + kAhead; ++at) {
    if (at < part.buckets)
      for (const auto& number : buckets[at].numbers)
        hash_of.prefetch(number.load(std::memory_order_relaxed));
    if (at < kAhead) continue;
    const Bucket& bucket = buckets[at - kAhead];
    for (size_t slot = 0; slot < kSlots; ++slot) {
      const uint64_t word = bucket.tags[slot / kTagsAWord].load(std::memory_order_relaxed);
      if ((word >> slot % kTagsAWord * 16 & 0xffff) == 0) continue;
      const uint32_t number = bucket.numbers[slot].load(std::memory_order_relaxed);
      put(next, hash_of(number), number);
    }
  }
  replace(part, std::move(next));
}

template <class Visit, class HashOf>
std::string BlockTable::check(Visit visit, HashOf hash_of) const {
  size_t numbers = 0;
  std::string wrong;
  for (const Part& part : parts_) {
    std::unique_ptr<uint64_t[]> expected = std::make_unique<uint64_t[]>(part.buckets);
    const Bucket* buckets = part.memory->view.buckets;
    size_t of_part = 0;
    for (size_t at = 0; at < part.buckets; ++at)
      for (size_t slot = 0; slot < kSlots; ++slot) {
        const uint64_t word = buckets[at].tags[slot / kTagsAWord].load();
        const uint64_t tag = word >> slot % kTagsAWord * 16 & 0xffff;
        if (tag == 0) continue;
        const uint32_t number = buckets[at].numbers[slot].load();
        const uint64_t hash = hash_of(number);
        if (tag_of(hash) != tag || &parts_[part_of(hash)] != &part)
          wrong = "a number in the wrong place of a table";
        for (size_t b = home(hash, part.buckets); b != at; b = (b + 1) % part.buckets)
          ++expected[b];
        visit(number);
        ++of_part;
      }
    for (size_t at = 0; at < part.buckets; ++at)
      if (past(buckets[at]) != expected[at]) wrong = "a bucket miscounts what went past it";
    if (of_part != part.size) wrong = "a part of a table miscounts its numbers";
    numbers += of_part;
  }
  if (numbers != size_) wrong = "a table miscounts its numbers";
  return wrong;
}

}  // namespace llmd::kv
