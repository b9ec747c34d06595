#include "owner_sets.h"

#include "base/check.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <thread>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace llmd::kv {
namespace {

std::vector<uint32_t>::iterator place_of(std::vector<uint32_t>& holdings, uint32_t who) {
  return std::ranges::lower_bound(holdings, who, {},
                                  [](uint32_t holding) { return Holding::who(holding); });
}

bool is_at(const std::vector<uint32_t>& holdings, std::vector<uint32_t>::iterator at,
           uint32_t who) {
  return at != holdings.end() && Holding::who(*at) == who;
}

}  // namespace

OwnerSets::OwnerSets(Epochs& epochs, size_t sets_max)
    : epochs_(epochs), chunks_((sets_max + 2 * kRetiredMax) / kChunkSets + 2) {}

OwnerSets::~OwnerSets() {
  for (uint32_t number = 0; number < numbers_; ++number) ::operator delete(cell(number).load());
  for (auto& chunk : chunks_) delete[] chunk.load();
}

template <class Edit>
uint32_t OwnerSets::change(Change what, uint32_t operand, uint32_t from, Edit edit) {
  if (what != changed_ || operand != changed_by_ || from != changed_from_) {
    scratch_.clear();
    if (from != 0) {
      const auto holdings = read(from);
      scratch_.assign(holdings.begin(), holdings.end());
    }
    edit(scratch_);
    changed_ = what;
    changed_by_ = operand;
    changed_from_ = from;
    changed_to_ = intern();
  }
  const uint32_t to = changed_to_;
  if (to == from) return from;
  acquire(to);
  release(from);
  return to;
}

uint32_t OwnerSets::add(uint32_t from, uint32_t who, bool count) {
  return change(count ? Change::kCount : Change::kAdd, who, from, [&](auto& holdings) {
    const auto at = place_of(holdings, who);
    if (!is_at(holdings, at, who)) {
      holdings.insert(at, who + Holding::kOne);
    } else if (count && Holding::count(*at) < Holding::kCountMax) {
      *at += Holding::kOne;
    }
  });
}

uint32_t OwnerSets::take(uint32_t from, uint32_t who) {
  return change(Change::kTake, who, from, [&](auto& holdings) {
    const auto at = place_of(holdings, who);
    if (!is_at(holdings, at, who)) return;
    *at -= Holding::kOne;
    if (Holding::count(*at) == 0) holdings.erase(at);
  });
}

uint32_t OwnerSets::drop(uint32_t from, uint32_t slot) {
  return change(Change::kDrop, slot, from, [&](auto& holdings) {
    std::erase_if(holdings, [&](uint32_t holding) { return Holding::slot(holding) == slot; });
  });
}

/// The set with the content of scratch_, a new one of no nodes if there is none yet.
uint32_t OwnerSets::intern() {
  if (scratch_.empty()) return 0;
  if (scratch_.size() == 1) return scratch_[0];
  const size_t bytes = scratch_.size() * sizeof(uint32_t);
  uint64_t key = XXH3_64bits(scratch_.data(), bytes);
  for (auto at = dictionary_.find(key); at != dictionary_.end(); at = dictionary_.find(++key))
    if (std::ranges::equal(read(at->second), scratch_)) return at->second;
  void* memory = ::operator new(sizeof(Set) + bytes);
  auto* set = new (memory) Set{.key = key, .size = static_cast<uint32_t>(scratch_.size())};
  std::memcpy(static_cast<char*>(memory) + sizeof(Set), scratch_.data(), bytes);
  bytes_ += set->bytes();
  const uint32_t number = new_number();
  cell(number).store(set, std::memory_order_release);
  dictionary_.emplace(key, number | kNumbered);
  return number | kNumbered;
}

uint32_t OwnerSets::new_number() {
  if (!free_numbers_.empty()) {
    const uint32_t number = free_numbers_.back();
    free_numbers_.pop_back();
    return number;
  }
  const uint32_t number = numbers_++;
  if (number % kChunkSets == 0) {
    CHECK(number / kChunkSets < chunks_.size());
    chunks_[number / kChunkSets].store(new Cell[kChunkSets]{}, std::memory_order_release);
  }
  return number;
}

void OwnerSets::acquire(uint32_t set) {
  if (set & kNumbered) ++cell(set).load(std::memory_order_relaxed)->nodes;
}

void OwnerSets::release(uint32_t set) {
  if (!(set & kNumbered)) return;
  Set& at = *cell(set).load(std::memory_order_relaxed);
  if (--at.nodes > 0) return;
  dictionary_.erase(at.key);
  bytes_ -= at.bytes();
  dropped_.push_back(set & ~kNumbered);
  changed_ = Change::kNone;
}

void OwnerSets::reclaim() {
  changed_ = Change::kNone;
  const uint64_t epoch = epochs_.taken_out();
  for (const uint32_t set : dropped_) retired_.push_back({.epoch = epoch, .set = set});
  dropped_.clear();
  while (true) {
    epochs_.advance();
    for (const uint64_t now = epochs_.now(); !retired_.empty() && retired_.front().epoch + 2 <= now;
         retired_.pop_front()) {
      Cell& at = cell(retired_.front().set);
      ::operator delete(at.load(std::memory_order_relaxed));
      at.store(nullptr, std::memory_order_relaxed);
      free_numbers_.push_back(retired_.front().set);
    }
    if (retired_.size() <= kRetiredMax) return;
    std::this_thread::yield();
  }
}

std::string OwnerSets::check(const boost::unordered_flat_map<uint32_t, size_t>& nodes) const {
  for (const auto& [key, set] : dictionary_) {
    const Set& at = *cell(set).load();
    const auto holdings = read(set);
    const auto who = [](uint32_t holding) { return Holding::who(holding); };
    if (at.key != key || at.size < 2) return "a set of owners is in the wrong place";
    if (!std::ranges::is_sorted(holdings, std::less_equal(), who) ||
        std::ranges::adjacent_find(holdings, {}, who) != holdings.end())
      return "a set of owners is not sorted";
    const auto counted = nodes.find(set);
    if (counted == nodes.end() || counted->second != at.nodes)
      return "a set of owners miscounts its nodes";
  }
  for (const auto& [set, count] : nodes)
    if (set & kNumbered && !dictionary_.contains(cell(set).load()->key))
      return "a set of owners is not in the dictionary";
  return "";
}

}  // namespace llmd::kv
