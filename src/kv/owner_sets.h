#pragma once

#include "epochs.h"

#include <boost/unordered/unordered_flat_map.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace llmd::kv {

/// One way in which a block is held, in 31 bits: the endpoint's slot, the place (tier, speculative,
/// group), and how many stores of it have not been taken back.
struct Holding {
  static constexpr unsigned kPlaceBits = 12;
  static constexpr unsigned kSlotBits = 12;
  static constexpr unsigned kCountShift = kPlaceBits + kSlotBits;
  static constexpr uint32_t kCountMax = 127;  // more stores are not told apart

  static constexpr uint32_t who(uint32_t slot, uint32_t place) {
    return slot << kPlaceBits | place;
  }
  static constexpr uint32_t who(uint32_t holding) { return holding & ((1u << kCountShift) - 1); }
  static constexpr uint32_t slot(uint32_t holding) {
    return holding >> kPlaceBits & ((1u << kSlotBits) - 1);
  }
  static constexpr uint32_t place(uint32_t holding) { return holding & ((1u << kPlaceBits) - 1); }
  static constexpr uint32_t count(uint32_t holding) { return holding >> kCountShift; }
  static constexpr uint32_t kOne = 1u << kCountShift;
};

/// The sets of holdings that blocks have, each distinct one kept once.
///
/// Blocks of a chain are stored and dropped together, so neighbours nearly always have equal sets:
/// a node keeps 32 bits, a run of blocks that gets another holder makes one new set, and a look-up
/// that sees the number of the block before knows that nothing has changed. Zero is the empty set,
/// a holding stands for the set of it alone, and sets of two and more have numbers with the top bit
/// set.
///
/// Invariants: holdings of a set are sorted by who() and distinct, two at least; a set is in the
/// dictionary, under its content, as long as a node has it; its number is used again only when no
/// reader can see the old set.
/// Threading: one writer; read() from any thread inside an Epochs::Reader.
class OwnerSets {
 public:
  /// At most `sets_max` sets at a time.
  OwnerSets(Epochs& epochs, size_t sets_max);
  ~OwnerSets();
  OwnerSets(const OwnerSets&) = delete;
  OwnerSets& operator=(const OwnerSets&) = delete;

  /// The holdings of `set`, which must outlive them: it may be one itself. Requires: nonzero.
  std::span<const uint32_t> read(const uint32_t& set) const {
    if (!(set & kNumbered)) return {&set, 1};
    const Set& at = *cell(set).load(std::memory_order_acquire);
    return {at.holdings(), at.size};
  }

  /// How many holdings there are in it. For the writer.
  size_t size_of(uint32_t set) const {
    if (!(set & kNumbered)) return set != 0;
    return cell(set).load(std::memory_order_relaxed)->size;
  }
  /// Whether an endpoint is among sorted holdings.
  static bool holds(std::span<const uint32_t> holdings, uint32_t slot) {
    const auto at = std::ranges::lower_bound(holdings, slot, {}, Holding::slot);
    return at != holdings.end() && Holding::slot(*at) == slot;
  }

  /// The sets that a node has after a change, where it had `from`; the node must take it, the
  /// counts of nodes by sets are already changed. Equal changes one after the other cost nothing
  /// but the first. With `count`, a holding that is there counts once more.
  uint32_t add(uint32_t from, uint32_t who, bool count);
  /// Takes one store of `who` back; `from` if there is none.
  uint32_t take(uint32_t from, uint32_t who);
  /// Drops all holdings of an endpoint.
  uint32_t drop(uint32_t from, uint32_t slot);
  /// Drops all; what read() gave stays until reclaim().
  void drop_all(uint32_t from) { release(from); }

  /// Frees what no reader sees any more. Waits for readers while very much is waiting for them.
  /// Requires: all nodes have taken their sets, as between batches.
  void reclaim();

  size_t size() const { return dictionary_.size(); }
  size_t bytes() const { return bytes_; }

  /// What is wrong, or "". `nodes[number]`: nodes by number of their set.
  std::string check(const boost::unordered_flat_map<uint32_t, size_t>& nodes) const;

 private:
  static constexpr uint32_t kNumbered = 1u << 31;
  static constexpr size_t kChunkSets = 4096;

  struct Set {
    uint64_t key = 0;    // in the dictionary
    uint32_t nodes = 0;  // that have it
    uint32_t size = 0;
    const uint32_t* holdings() const { return reinterpret_cast<const uint32_t*>(this + 1); }
    size_t bytes() const { return sizeof(Set) + size * sizeof(uint32_t); }
  };
  using Cell = std::atomic<Set*>;
  enum class Change : uint8_t { kNone, kAdd, kCount, kTake, kDrop };
  struct Retired {
    uint64_t epoch;
    uint32_t set;
  };
  static constexpr size_t kRetiredMax = 1 << 16;

  Cell& cell(uint32_t set) const {
    const uint32_t number = set & ~kNumbered;
    return chunks_[number / kChunkSets].load(std::memory_order_acquire)[number % kChunkSets];
  }
  /// Changes from `from` to the set that `edit(scratch_)` makes of a copy of its holdings.
  template <class Edit>
  uint32_t change(Change what, uint32_t operand, uint32_t from, Edit edit);
  uint32_t intern();
  uint32_t new_number();
  void acquire(uint32_t set);
  void release(uint32_t set);

  Epochs& epochs_;
  std::vector<std::atomic<Cell*>> chunks_;
  uint32_t numbers_ = 0;  // ever given out
  std::vector<uint32_t> free_numbers_;
  std::vector<uint32_t>
      dropped_;  // since the last reclaim(); nodes may not have let go of them yet
  std::deque<Retired> retired_;
  boost::unordered_flat_map<uint64_t, uint32_t> dictionary_;  // hash of the content -> set
  std::vector<uint32_t> scratch_;
  size_t bytes_ = 0;
  // The last change.
  Change changed_ = Change::kNone;
  uint32_t changed_by_ = 0;
  uint32_t changed_from_ = 0;
  uint32_t changed_to_ = 0;
};

}  // namespace llmd::kv
