#pragma once

#include "epochs.h"
#include "table_memory.h"

#include <algorithm>
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
/// A bucket is one cache line: ten numbers, each with a label of 13 bits of its hash and how far it
/// stands from its home, and how many numbers went past the bucket because it was full. Such a
/// number stands in one of the next buckets, and a search ends at the first bucket that nothing
/// went past. It comes back when a place becomes free: else all searches would become longer with
/// time. A reader that found nothing searches again if numbers moved meanwhile. A part that is too
/// full is replaced by a larger one; the old one is freed when no reader is left that sees it.
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
    const auto& moves = moves_[part_of(hash)];
    while (true) {
      const uint32_t before = moves.load(std::memory_order_acquire);
      const Place place = locate(hash, is_it);
      if (place.bucket || moves.load(std::memory_order_relaxed) == before) return place.number;
    }
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
  static constexpr size_t kLabelsAWord = 4;
  static constexpr size_t kPastShift = 32;  // of the count in the third word, above two labels
  static constexpr uint64_t kFar = 7;       // buckets from home, and more
  static constexpr uint64_t kEach = 0x0001000100010001;

  struct alignas(64) Bucket {
    std::array<std::atomic<uint64_t>, 3> labels;  // 0: free
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

    size_t after(size_t at) const { return at + 1 == buckets ? 0 : at + 1; }
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
  struct Passed {
    Bucket* bucket = nullptr;
    size_t slot = 0;
    size_t by = 0;  // buckets behind the one that it passed
  };

  static size_t part_of(uint64_t hash) { return hash % kParts; }
  /// Of a number that stands `distance` buckets behind its home.
  static uint64_t label_of(uint64_t hash, size_t distance) {
    const uint64_t bits = hash >> 8 & 0x1fff;
    return (bits == 0 ? 1 : bits) << 3 | std::min<uint64_t>(distance, kFar);
  }
  static size_t home(uint64_t hash, size_t buckets) { return (hash >> 32) * buckets >> 32; }
  static size_t grown(size_t buckets) {
    const size_t more = buckets + buckets / 4 + 1;
    constexpr size_t kPage = kHugePageBytes / sizeof(Bucket);
    return more < kPage ? more : (more + kPage - 1) / kPage * kPage;
  }
  const View& view(uint64_t hash) const {
    return *views_[part_of(hash)].load(std::memory_order_acquire);
  }

  /// A bit for each lane of the word that is the label.
  static uint32_t lanes_with(uint64_t word, uint64_t label) {
    constexpr uint64_t kLow = 0x7fff * kEach;
    const uint64_t x = word ^ label * kEach;
    const uint64_t zero = ~(((x & kLow) + kLow) | x | kLow);  // the high bit of each equal lane
    return static_cast<uint32_t>((zero >> 15) * 0x0001000200040008 >> 48) & 15;
  }
  /// The same for the slots of a bucket. Written out: a loop would have its words go through
  /// memory.
  static uint32_t slots_with(const std::array<uint64_t, 3>& words, uint64_t label) {
    return lanes_with(words[0], label) | lanes_with(words[1], label) << 4 |
           (lanes_with(words[2], label) & 3) << 8;
  }
  static std::array<uint64_t, 3> words_of(const Bucket& bucket) {
    return {bucket.labels[0].load(std::memory_order_acquire),
            bucket.labels[1].load(std::memory_order_acquire),
            bucket.labels[2].load(std::memory_order_acquire)};
  }
  static uint64_t label_at(const Bucket& bucket, size_t slot) {
    const uint64_t word = bucket.labels[slot / kLabelsAWord].load(std::memory_order_relaxed);
    return word >> slot % kLabelsAWord * 16 & 0xffff;
  }
  static void set_label(Bucket& bucket, size_t slot, uint64_t label);
  static uint64_t past(const Bucket& bucket) {
    return bucket.labels[2].load(std::memory_order_relaxed) >> kPastShift;
  }
  static void count_past(Bucket& bucket, int64_t change);

  template <class IsIt>
  Place locate(uint64_t hash, IsIt is_it) const {
    const View& part = view(hash);
    size_t at = home(hash, part.count);
    for (size_t distance = 0; distance < part.count; ++distance) {
      const Bucket& bucket = part.buckets[at];
      const auto words = words_of(bucket);
      uint32_t slots = slots_with(words, label_of(hash, distance));
      for (; slots != 0; slots &= slots - 1) {
        const auto slot = static_cast<size_t>(std::countr_zero(slots));
        const uint32_t number = bucket.numbers[slot].load(std::memory_order_relaxed);
        if (is_it(number)) return {const_cast<Bucket*>(&bucket), slot, number};
      }
      if (words[2] >> kPastShift == 0) return {};
      at = at + 1 == part.count ? 0 : at + 1;
    }
    return {};
  }

  void put(Part& part, uint64_t hash, uint32_t number);
  static Passed find_passed(const Part& part, size_t at);
  void fill_gap(uint64_t hash, size_t at, size_t slot);
  static std::unique_ptr<Memory> make(size_t buckets);
  template <class HashOf>
  void grow(Part& part, HashOf hash_of);
  void replace(Part& part, Part next);

  Epochs& epochs_;
  std::array<std::atomic<const View*>, kParts> views_;
  std::array<std::atomic<uint32_t>, kParts> moves_{};  // of numbers, inside the parts
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
      if (label_at(bucket, slot) == 0) continue;
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
        const uint64_t label = label_at(buckets[at], slot);
        if (label == 0) continue;
        const uint32_t number = buckets[at].numbers[slot].load();
        const uint64_t hash = hash_of(number);
        const size_t from = home(hash, part.buckets);
        const size_t distance = (at + part.buckets - from) % part.buckets;
        if (label_of(hash, distance) != label || &parts_[part_of(hash)] != &part)
          wrong = "a number in the wrong place of a table";
        for (size_t i = 0; i < distance; ++i) ++expected[(from + i) % part.buckets];
        visit(number);
        ++of_part;
      }
    for (size_t at = 0; at < part.buckets; ++at) {
      if (past(buckets[at]) != expected[at]) wrong = "a bucket miscounts what went past it";
      if (slots_with(words_of(buckets[at]), 0) != 0 && find_passed(part, at).bucket != nullptr)
        wrong = "a number stands behind a bucket that has room";
    }
    if (of_part != part.size) wrong = "a part of a table miscounts its numbers";
    numbers += of_part;
  }
  if (numbers != size_) wrong = "a table miscounts its numbers";
  return wrong;
}

}  // namespace llmd::kv
