#pragma once

#include "precise_part.h"

#include <algorithm>
#include <array>
#include <span>

namespace llmd::kv {

/// Finds the nodes of a chain from its first block on: by the links between nodes, or else by the
/// table of entries, for as many blocks at once as had to be looked for lately.
/// Threading: one thread, inside an Epochs::Reader.
class ChainWalk {
 public:
  ChainWalk(const PrecisePart& part, std::span<const uint64_t> chain)
      : part_(part), nodes_(part.nodes()), chain_(chain) {}

  /// The node of chain[i]; 0: there is none. Requires: i counts up from 0.
  uint32_t find(size_t i) {
    const uint32_t linked = at_ == 0 ? 0 : nodes_[at_].successor();
    if (linked == 0 || key_of(linked) != chain_[i]) return at_ = enter(i);
    __builtin_prefetch(&nodes_[linked] + kNodesAhead);
    if (++linked_in_a_row_ >= kBatchMax) batch_ = 1;
    return at_ = linked;
  }

 private:
  static constexpr size_t kBatchMax = 32;
  static constexpr size_t kNodesAhead = 12;

  uint64_t key_of(uint32_t node) const { return nodes_[node].key.load(std::memory_order_acquire); }

  [[gnu::noinline]] uint32_t enter(size_t i) {
    linked_in_a_row_ = 0;
    if (i >= guessed_end_) guess(i);
    const uint32_t guessed = guesses_[i - guessed_begin_];
    if (guessed != 0 && key_of(guessed) == chain_[i]) return guessed;
    return part_.entry_of(chain_[i]);  // what was guessed may have changed since
  }

  /// Brings the tables' lines for the next blocks nearer, then their nodes.
  void guess(size_t i) {
    guessed_begin_ = i;
    guessed_end_ = std::min(i + batch_, chain_.size());
    batch_ = std::min(batch_ * 2, kBatchMax);
    for (size_t k = i; k < guessed_end_; ++k) part_.prefetch(chain_[k]);
    for (size_t k = i; k < guessed_end_; ++k)
      __builtin_prefetch(&nodes_[guesses_[k - i] = part_.guess(chain_[k])]);
  }

  const PrecisePart& part_;
  const BlockNodes& nodes_;
  const std::span<const uint64_t> chain_;
  uint32_t at_ = 0;
  size_t batch_ = 1;
  size_t linked_in_a_row_ = 0;
  size_t guessed_begin_ = 0;
  size_t guessed_end_ = 0;
  std::array<uint32_t, kBatchMax> guesses_;
};

}  // namespace llmd::kv
