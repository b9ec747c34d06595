#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace llmd::kv {

/// A set of blocks in order of last use: a list through an array of nodes, and a hash table of node
/// numbers with linear probing, at most half full.
/// Threading: one thread at a time. Cost: O(1) a call; memory 24 bytes a block plus 8 to 16 of
/// table, growing by doubling.
class BlockLru {
 public:
  size_t size() const { return size_; }

  /// Makes recent what was made recent in one go before: if block(count - 1) is there, it and those
  /// of block(count - 2), block(count - 3) … that stand next to it, each newer than the one before,
  /// become the newest, in the same order. Returns how many they are; 0: that block is not there.
  /// Cost: one look-up and a walk over nodes, which stand together in memory if they were inserted
  /// one after the other. Requires: count > 0.
  template <class BlockAt>
  size_t promote_run(size_t count, BlockAt block) {
    if (size_ == 0) return 0;
    const uint32_t oldest = cells_[find_cell(block(count - 1))];
    if (oldest == kNone) return 0;
    uint32_t newest = oldest;
    size_t run = 1;
    for (; run < count; ++run) {
      const uint32_t next = nodes_[newest].newer;
      if (next == kNone || nodes_[next].block != block(count - 1 - run)) break;
      __builtin_prefetch(nodes_.data() + next + kNodesAhead);
      newest = next;
    }
    if (newest != newest_) {
      unlink(newest, oldest);
      link_newest(newest, oldest);
    }
    return run;
  }
  /// Adds `block` as the newest. Requires: it is not there.
  void insert(uint64_t block);
  /// Requires: not empty.
  uint64_t oldest() const { return nodes_[oldest_].block; }
  /// Requires: it is there.
  void erase(uint64_t block);
  /// Empties the set and gives its memory back.
  void clear();

  /// Brings the table's cell of `block` nearer; the second step, once the cell is there, its node.
  void prefetch_cell(uint64_t block) const {
    if (!cells_.empty()) __builtin_prefetch(&cells_[home(block)]);
  }
  void prefetch_node(uint64_t block) const {
    if (cells_.empty()) return;
    if (const uint32_t at = cells_[home(block)]; at != kNone) __builtin_prefetch(&nodes_[at]);
  }

  /// Calls visit(block) from the newest to the oldest.
  template <class Visit>
  void each(Visit visit) const {
    for (uint32_t at = newest_; at != kNone; at = nodes_[at].older) visit(nodes_[at].block);
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr size_t kNodesAhead = 16;  // four cache lines
  struct Node {
    uint64_t block;
    uint32_t newer;
    uint32_t older;
  };

  size_t home(uint64_t block) const { return (block >> 20) & (cells_.size() - 1); }
  size_t find_cell(uint64_t block) const;  // of the block, or the empty cell where it would go
  // Of the nodes from `newer` to `older` as they are linked.
  void link_newest(uint32_t newer, uint32_t older);
  void unlink(uint32_t newer, uint32_t older);
  void close_gap(size_t cell);
  void grow();

  std::vector<Node> nodes_;
  std::vector<uint32_t> cells_;  // node numbers; size is a power of two
  uint32_t newest_ = kNone;
  uint32_t oldest_ = kNone;
  uint32_t free_ = kNone;  // unused nodes, linked by `older`
  size_t size_ = 0;
};

}  // namespace llmd::kv
