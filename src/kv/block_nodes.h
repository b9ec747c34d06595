#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace llmd::kv {

/// What the index keeps of one block: 24 bytes that lie beside those of the blocks stored with it.
///
/// A node changes hands as: key to 0, the rest, new key. Readers read the key, the rest, the key
/// again.
struct BlockNode {
  static constexpr uint32_t kRecent = 1u << 31;
  static constexpr uint32_t kEntry = 1u << 30;  // the table of request keys leads to it

  std::atomic<uint64_t> key;     // 0: free
  uint64_t engine_key;           // 0: none; the writer's
  std::atomic<uint32_t> owners;  // a set of OwnerSets
  std::atomic<uint32_t> link;    // node of a block behind it, and the flags above

  uint32_t successor() const { return link.load(std::memory_order_acquire) & (kEntry - 1); }
  bool is_entry() const { return link.load(std::memory_order_relaxed) & kEntry; }
};

/// The nodes of an index part. Their memory is never given back and holds nodes for good, so
/// readers may look at one that has changed hands meanwhile.
///
/// Numbers are given out in ascending order through the free ones, so what is stored together lies
/// together, in order; new memory is taken only when fewer than one in eight is free.
/// Threading: one writer; operator[] from any thread for numbers that a table or a link named.
class BlockNodes {
 public:
  static constexpr size_t kNodesMax = BlockNode::kEntry;

  explicit BlockNodes(size_t nodes_max);
  ~BlockNodes();
  BlockNodes(const BlockNodes&) = delete;
  BlockNodes& operator=(const BlockNodes&) = delete;

  BlockNode& operator[](uint32_t number) const {
    return chunks_[number / kChunkNodes].load(std::memory_order_acquire)[number % kChunkNodes];
  }

  /// The number of a free node. Takes new memory if it `may_grow` or nothing is free.
  uint32_t allocate(bool may_grow);
  /// Requires: no table leads to it.
  void free(uint32_t number);
  bool is_free(uint32_t number) const { return free_[number / 64] >> number % 64 & 1; }

  /// Numbers are below; number 0 is never given out.
  uint32_t end() const { return static_cast<uint32_t>(free_.size() * 64); }
  size_t used() const { return end() - free_count_ - 1; }
  size_t bytes() const { return end() * sizeof(BlockNode) + free_.size() * sizeof(uint64_t); }
  /// Bytes that are taken at a time.
  static constexpr size_t kGrowth = 64 * sizeof(BlockNode) + sizeof(uint64_t);

 private:
  static constexpr size_t kChunkNodes = size_t{1} << 18;  // three huge pages

  void grow();

  std::vector<std::atomic<BlockNode*>> chunks_;
  std::vector<uint64_t> free_;  // a bit a node
  size_t free_count_ = 0;
  size_t word_ = 0;  // of free_, where the next is looked for
};

}  // namespace llmd::kv
