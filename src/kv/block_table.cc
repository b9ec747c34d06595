#include "block_table.h"

#include "base/check.h"

#include <new>

namespace llmd::kv {
namespace {

constexpr size_t kFirstBuckets = 2;
/// A part grows above this load: searches then look at 1.1 buckets.
constexpr size_t kLoadMaxPercent = 85;

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
  auto* at = static_cast<Bucket*>(allocate_table(buckets * sizeof(Bucket)));
  for (size_t i = 0; i < buckets; ++i) new (at + i) Bucket{};
  return std::make_unique<Memory>(TableMemory<Bucket>(at), View{at, buckets});
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

void BlockTable::put(Part& part, uint64_t hash, uint32_t number) {
  Bucket* buckets = part.memory->buckets.get();
  size_t at = home(hash, part.buckets);
  for (size_t n = 0; n < part.buckets; ++n) {
    Bucket& bucket = buckets[at];
    for (size_t i = 0; i < bucket.tags.size(); ++i) {
      const uint64_t word = bucket.tags[i].load(std::memory_order_relaxed);
      const uint64_t free = equal_tags(word, i, 0);
      if (free == 0) continue;
      const auto lane = static_cast<size_t>(std::countr_zero(free)) / 16;
      bucket.numbers[i * kTagsAWord + lane].store(number, std::memory_order_relaxed);
      bucket.tags[i].store(word | tag_of(hash) << lane * 16, std::memory_order_release);
      return;
    }
    const uint64_t word = bucket.tags[2].load(std::memory_order_relaxed);
    bucket.tags[2].store(word + (uint64_t{1} << kPastShift), std::memory_order_release);
    at = at + 1 == part.buckets ? 0 : at + 1;
  }
  CHECK(false);  // insert() makes room
}

void BlockTable::erase(uint64_t hash, uint32_t number) {
  const Place place = locate(hash, [&](uint32_t other) { return other == number; });
  CHECK(place.bucket != nullptr);
  Part& part = parts_[part_of(hash)];
  auto& tags = place.bucket->tags[place.slot / kTagsAWord];
  const uint64_t lane = uint64_t{0xffff} << place.slot % kTagsAWord * 16;
  tags.store(tags.load(std::memory_order_relaxed) & ~lane, std::memory_order_release);
  Bucket* buckets = part.memory->buckets.get();
  for (size_t at = home(hash, part.buckets); &buckets[at] != place.bucket;
       at = at + 1 == part.buckets ? 0 : at + 1) {
    auto& word = buckets[at].tags[2];
    word.store(word.load(std::memory_order_relaxed) - (uint64_t{1} << kPastShift),
               std::memory_order_release);
  }
  --part.size;
  --size_;
}

void BlockTable::reclaim() {
  while (!replaced_.empty() && replaced_.front().epoch + 2 <= epochs_.now()) replaced_.pop_front();
}

}  // namespace llmd::kv
