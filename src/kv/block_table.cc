#include "block_table.h"

#include "base/check.h"

#include <new>

namespace llmd::kv {
namespace {

constexpr size_t kFirstBuckets = 2;
/// A part grows above this load: searches then look at 1.1 buckets.
constexpr size_t kLoadMaxPercent = 72;

}  // namespace

BlockTable::BlockTable(Epochs& epochs) : epochs_(epochs) {
  for (Part& part : parts_) {
    Part first;
    first.buckets = kFirstBuckets;
    first.memory = make(kFirstBuckets);
    replace(part, std::move(first));
  }
}

std::unique_ptr<BlockTable::Memory> BlockTable::make(size_t buckets) {
  TableMemory<Bucket> memory = make_table<Bucket>(buckets);
  for (size_t i = 0; i < buckets; ++i) new (&memory[i]) Bucket{};
  const View view = {memory.get(), buckets};
  return std::make_unique<Memory>(std::move(memory), view);
}

void BlockTable::replace(Part& part, Part next) {
  next.size_max = next.buckets * kSlots * kLoadMaxPercent / 100;
  bytes_ += (next.buckets - part.buckets) * sizeof(Bucket);
  views_[static_cast<size_t>(&part - parts_.data())].store(&next.memory->view,
                                                           std::memory_order_release);
  if (part.memory)
    replaced_.push_back({.epoch = epochs_.taken_out(), .memory = std::move(part.memory)});
  part = std::move(next);
}

void BlockTable::set_label(Bucket& bucket, size_t slot, uint64_t label) {
  auto& word = bucket.labels[slot / kLabelsAWord];
  const size_t shift = slot % kLabelsAWord * 16;
  word.store((word.load(std::memory_order_relaxed) & ~(uint64_t{0xffff} << shift)) | label << shift,
             std::memory_order_release);
}

void BlockTable::count_past(Bucket& bucket, int64_t change) {
  auto& word = bucket.labels[2];
  word.store(word.load(std::memory_order_relaxed) + (static_cast<uint64_t>(change) << kPastShift),
             std::memory_order_release);
}

void BlockTable::put(Part& part, uint64_t hash, uint32_t number) {
  Bucket* buckets = part.memory->buckets.get();
  size_t at = home(hash, part.buckets);
  for (size_t distance = 0; distance < part.buckets; ++distance) {
    Bucket& bucket = buckets[at];
    if (const uint32_t free = slots_with(words_of(bucket), 0); free != 0) {
      const auto slot = static_cast<size_t>(std::countr_zero(free));
      bucket.numbers[slot].store(number, std::memory_order_relaxed);
      set_label(bucket, slot, label_of(hash, distance));
      return;
    }
    count_past(bucket, 1);
    at = part.after(at);
  }
  CHECK(false);  // insert() makes room
}

void BlockTable::erase(uint64_t hash, uint32_t number) {
  const Place place = locate(hash, [&](uint32_t other) { return other == number; });
  CHECK(place.bucket != nullptr);
  Part& part = parts_[part_of(hash)];
  Bucket* buckets = part.memory->buckets.get();
  set_label(*place.bucket, place.slot, 0);
  size_t at = home(hash, part.buckets);
  for (; &buckets[at] != place.bucket; at = part.after(at)) count_past(buckets[at], -1);
  --part.size;
  --size_;
  fill_gap(hash, at, place.slot);
}

/// A number that went past the bucket and stands less than kFar behind its home; none: {}.
BlockTable::Passed BlockTable::find_passed(const Part& part, size_t at) {
  Bucket* buckets = part.memory->buckets.get();
  for (size_t by = 1; by < kFar && past(buckets[at]) != 0; ++by) {
    at = part.after(at);
    for (size_t slot = 0; slot < kSlots; ++slot) {
      const uint64_t distance = label_at(buckets[at], slot) & kFar;
      if (distance >= by && distance < kFar) return {&buckets[at], slot, by};
    }
  }
  return {};
}

/// Moves a number that went past the bucket to its free slot, then another one to where that was.
void BlockTable::fill_gap(uint64_t hash, size_t at, size_t slot) {
  const Part& part = parts_[part_of(hash)];
  auto& moves = moves_[part_of(hash)];
  Bucket* buckets = part.memory->buckets.get();
  while (true) {
    const auto [from, from_slot, by] = find_passed(part, at);
    if (from == nullptr) return;
    Bucket& to = buckets[at];
    to.numbers[slot].store(from->numbers[from_slot].load(std::memory_order_relaxed),
                           std::memory_order_relaxed);
    set_label(to, slot, label_at(*from, from_slot) - by);
    // Before it is gone there: a reader that found it in neither place must see this.
    moves.store(moves.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    set_label(*from, from_slot, 0);
    for (; &buckets[at] != from; at = part.after(at)) count_past(buckets[at], -1);
    slot = from_slot;
  }
}

void BlockTable::reclaim() {
  while (!replaced_.empty() && replaced_.front().epoch + 2 <= epochs_.now()) replaced_.pop_front();
}

}  // namespace llmd::kv
