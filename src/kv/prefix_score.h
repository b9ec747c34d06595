#pragma once

#include "owner_sets.h"

#include "base/limits.h"
#include "kv/precise_index.h"

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace llmd::kv {

/// Follows which of some holders still hold a chain, block by block (spec 05 §4). From one block to
/// the next only holders whose holdings differ cost anything.
/// Threading: one thread; one at a time in a thread, since the scratch memory is the thread's.
class PrefixScore {
 public:
  explicit PrefixScore(const TierWeights& weights) : weights_(weights), scratch_(scratch()) {
    scratch_.followed.clear();
    scratch_.before.clear();
    scratch_.sums.clear();
  }
  ~PrefixScore() {
    for (const Followed& one : scratch_.followed) scratch_.index_of[one.slot] = kNobody;
  }
  PrefixScore(const PrefixScore&) = delete;
  PrefixScore& operator=(const PrefixScore&) = delete;

  /// Requires: before the first block; the hit outlives this.
  void follow(uint32_t slot, PrefixHit& hit) {
    if (scratch_.index_of[slot] != kNobody) return;  // named twice
    scratch_.index_of[slot] = static_cast<uint16_t>(scratch_.followed.size());
    scratch_.followed.push_back({.hit = &hit, .slot = slot});
    ++left_;
  }
  bool anyone() const { return left_ > 0; }

  /// The next block has these holdings, sorted by slot, the ones after it too until the next call.
  void change(std::span<const uint32_t> holdings);
  /// As many blocks with the holdings of the last change.
  void count(uint32_t blocks) { blocks_ += blocks; }
  /// The chain ends, or nobody holds the next block.
  void finish() { change({}); }

 private:
  static constexpr uint16_t kNobody = UINT16_MAX;
  static constexpr uint32_t kSpeculative = 1u << Place::kTiersMax;

  struct Followed {
    PrefixHit* hit;
    uint32_t slot;
    uint32_t here = 0;     // bits of tiers that hold this block; 0: it has left, or not begun
    uint32_t lasting = 0;  // those that held all blocks yet
    uint16_t sum = kNobody;
  };
  /// The weights of the blocks so far, of all for whom they add up to the same.
  struct Sum {
    double score;
    double weight;    // of the blocks after `blocks`
    uint32_t blocks;  // that are in the score
    uint32_t users;
  };
  struct Scratch {
    Scratch() { index_of.fill(kNobody); }
    std::array<uint16_t, limits::kEndpointsMax> index_of;  // of slots, in followed
    std::vector<Followed> followed;
    std::vector<uint32_t> before;  // holdings of the last change
    std::vector<Sum> sums;
  };
  static Scratch& scratch() {
    thread_local Scratch scratch;
    return scratch;
  }

  void update(uint32_t slot, uint32_t here);
  void leave(Followed& one);
  double weight_of(uint32_t tiers) const;
  void note_end_of_tiers(const Followed& one, uint32_t tiers) const;
  double score_of(uint16_t sum);
  uint16_t sum_of(double score, double weight);

  const TierWeights& weights_;
  Scratch& scratch_;
  uint32_t blocks_ = 0;
  size_t left_ = 0;  // who holds all blocks yet
};

}  // namespace llmd::kv
