#pragma once

#include "owner_sets.h"

#include "base/limits.h"
#include "kv/precise_index.h"

#include <cmath>
#include <vector>

namespace llmd::kv {

/// Follows which of some holders still hold a chain, block by block (spec 05 §4).
/// Threading: one thread; one at a time in a thread, since the scratch memory is the thread's.
class PrefixScore {
 public:
  explicit PrefixScore(const TierWeights& weights) : weights_(weights), scratch_(scratch()) {
    scratch_.active.clear();
  }
  ~PrefixScore() {
    for (const uint32_t slot : scratch_.slots) scratch_.index_of[slot] = kNobody;
    scratch_.slots.clear();
  }
  PrefixScore(const PrefixScore&) = delete;
  PrefixScore& operator=(const PrefixScore&) = delete;

  /// Requires: before the first block; the hit outlives this.
  void follow(uint32_t slot, PrefixHit& hit) {
    if (scratch_.index_of[slot] != kNobody) return;  // named twice
    scratch_.index_of[slot] = static_cast<uint16_t>(scratch_.active.size());
    scratch_.slots.push_back(slot);
    scratch_.active.push_back({.hit = &hit, .slot = slot});
  }
  bool anyone() const { return !scratch_.active.empty(); }

  /// The next block has these holdings, the ones after it too until the next call.
  void change(std::span<const uint32_t> holdings);
  /// As many blocks with the holdings of the last change.
  void count(uint32_t blocks);
  /// The chain ends, or nobody holds the next block.
  void finish() { change({}); }

 private:
  static constexpr uint16_t kNobody = UINT16_MAX;
  static constexpr uint32_t kSpeculative = 1u << Place::kTiersMax;

  struct Active {
    PrefixHit* hit;
    uint32_t slot;
    uint32_t blocks = 0;
    uint32_t lasting = ~uint32_t{0};  // bits of tiers that held all blocks yet
    uint32_t here = 0;                // those that hold this block
    double score = 0;
    double weight = 0;  // of this block
  };
  struct Scratch {
    Scratch() { index_of.fill(kNobody); }
    std::array<uint16_t, limits::kEndpointsMax> index_of;  // of slots, in active
    std::vector<uint32_t> slots;
    std::vector<Active> active;
  };
  static Scratch& scratch() {
    thread_local Scratch scratch;
    return scratch;
  }

  double weight_of(uint32_t tiers) const;
  static void note_end_of_tiers(Active& active, uint32_t tiers);

  const TierWeights& weights_;
  Scratch& scratch_;
};

}  // namespace llmd::kv
