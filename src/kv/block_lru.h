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

  /// Makes `block` the newest and says whether it was there.
  bool promote(uint64_t block);
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
  struct Node {
    uint64_t block;
    uint32_t newer;
    uint32_t older;
  };

  size_t home(uint64_t block) const { return (block >> 20) & (cells_.size() - 1); }
  size_t find_cell(uint64_t block) const;  // of the block, or the empty cell where it would go
  void link_newest(uint32_t at);
  void unlink(uint32_t at);
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
