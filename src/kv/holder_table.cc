#include "holder_table.h"

#include "base/check.h"

#include <new>

namespace llmd::kv {

HolderTable::HolderTable(size_t buckets, size_t words)
    : mask_(buckets - 1), words_(words), bucket_cells_(kWays * (1 + words)) {
  CHECK(buckets > 1 && (buckets & mask_) == 0);
  CHECK(words <= kWordsMax);
  const size_t cells = buckets * bucket_cells_;
  cells_ = make_table<Cell>(cells);
  for (size_t i = 0; i < cells; ++i) new (&cells_[i]) Cell(0);
}

HolderTable::Place HolderTable::find(uint64_t key) const {
  for (const size_t bucket : {first(key), second(key)})
    for (size_t way = 0; way < kWays; ++way)
      if (keys(bucket)[way].load(std::memory_order_relaxed) == key) return {keys(bucket), way};
  return {};
}

HolderTable::Place HolderTable::free_way(size_t bucket) const {
  for (size_t way = 0; way < kWays; ++way)
    if (keys(bucket)[way].load(std::memory_order_relaxed) == 0) return {keys(bucket), way};
  return {};
}

void HolderTable::copy_bits(Place place, uint64_t* bits) const {
  const Cell* from = bits_of(place.cells, place.way);
  for (size_t i = 0; i < words_; ++i) bits[i] = from[i].load(std::memory_order_relaxed);
}

/// Requires: the way is free.
void HolderTable::fill(Place place, uint64_t key, const uint64_t* bits) {
  Cell* to = bits_of(place.cells, place.way);
  for (size_t i = 0; i < words_; ++i) to[i].store(bits[i], std::memory_order_release);
  place.cells[place.way].store(key, std::memory_order_release);
}

/// Moves a block of a full bucket to its other bucket, if one of the four can go there.
HolderTable::Place HolderTable::make_room(size_t bucket) {
  Cell* at = keys(bucket);
  for (size_t way = 0; way < kWays; ++way) {
    const uint64_t key = at[way].load(std::memory_order_relaxed);
    const Place to = free_way(first(key) == bucket ? second(key) : first(key));
    if (!to.cells) continue;
    uint64_t bits[kWordsMax];
    copy_bits({at, way}, bits);
    fill(to, key, bits);
    at[way].store(0, std::memory_order_release);
    return {at, way};
  }
  return {};
}

bool HolderTable::place_copy(uint64_t key, const uint64_t* bits) {
  Place place = free_way(first(key));
  if (!place.cells) place = free_way(second(key));
  if (!place.cells) place = make_room(first(key));
  if (!place.cells) place = make_room(second(key));
  if (!place.cells) return false;
  fill(place, key, bits);
  ++size_;
  return true;
}

HolderTable::Set HolderTable::set(uint64_t key, uint32_t slot) {
  CHECK(slot / 64 < words_);
  const uint64_t bit = uint64_t{1} << slot % 64;
  if (const Place place = find(key); place.cells) {
    bits_of(place.cells, place.way)[slot / 64].fetch_or(bit, std::memory_order_release);
    return Set::kDone;
  }
  uint64_t bits[kWordsMax] = {};
  bits[slot / 64] = bit;
  return place_copy(key, bits) ? Set::kDone : Set::kFull;
}

void HolderTable::clear(uint64_t key, uint32_t slot) {
  const Place place = find(key);
  if (!place.cells || slot / 64 >= words_) return;
  Cell* bits = bits_of(place.cells, place.way);
  const uint64_t bit = uint64_t{1} << slot % 64;
  bits[slot / 64].fetch_and(~bit, std::memory_order_release);
  uint64_t left = 0;
  for (size_t i = 0; i < words_; ++i) left |= bits[i].load(std::memory_order_relaxed);
  if (left != 0) return;
  place.cells[place.way].store(0, std::memory_order_release);
  --size_;
}

std::unique_ptr<HolderTable> HolderTable::resized(size_t buckets, size_t words) const {
  auto table = std::make_unique<HolderTable>(buckets, words);
  bool fits = true;
  each([&](uint64_t key, const Cell* from) {
    uint64_t bits[kWordsMax] = {};
    for (size_t i = 0; i < words_; ++i) bits[i] = from[i].load(std::memory_order_relaxed);
    fits = fits && table->place_copy(key, bits);
  });
  return fits ? std::move(table) : nullptr;
}

}  // namespace llmd::kv
