#include "block_nodes.h"

#include "table_memory.h"

#include "base/check.h"

#include <bit>
#include <new>

namespace llmd::kv {
namespace {

/// Of all nodes, one in so many is kept free: fewer would be scattered singly between used ones.
constexpr size_t kFreeShare = 8;

}  // namespace

BlockNodes::BlockNodes(size_t nodes_max)
    : chunks_(nodes_max / (kFreeShare - 1) * kFreeShare / kChunkNodes + 2) {
  grow();
  free_[0] &= ~uint64_t{1};
  --free_count_;
}

BlockNodes::~BlockNodes() {
  for (auto& chunk : chunks_)
    if (BlockNode* const nodes = chunk.load()) FreeTable{kChunkNodes * sizeof(BlockNode)}(nodes);
}

void BlockNodes::grow() {
  const size_t first = free_.size() * 64;
  auto& chunk = chunks_.at(first / kChunkNodes);
  BlockNode* nodes = chunk.load(std::memory_order_relaxed);
  if (nodes == nullptr) {
    nodes = make_table<BlockNode>(kChunkNodes).release();
    chunk.store(nodes, std::memory_order_release);
  }
  for (size_t i = 0; i < 64; ++i) new (nodes + first % kChunkNodes + i) BlockNode{};
  free_.push_back(~uint64_t{0});
  free_count_ += 64;
}

uint32_t BlockNodes::allocate(bool may_grow) {
  if (free_[word_] == 0) {
    if (free_count_ == 0 || (may_grow && free_count_ < free_.size() * 64 / kFreeShare)) {
      grow();
      word_ = free_.size() - 1;
    } else {
      do word_ = word_ + 1 == free_.size() ? 0 : word_ + 1;
      while (free_[word_] == 0);
    }
  }
  const auto bit = static_cast<uint32_t>(std::countr_zero(free_[word_]));
  free_[word_] &= free_[word_] - 1;
  --free_count_;
  return static_cast<uint32_t>(word_ * 64) + bit;
}

void BlockNodes::free(uint32_t number) {
  BlockNode& node = (*this)[number];
  node.key.store(0, std::memory_order_release);
  node.owners.store(0, std::memory_order_release);
  node.link.store(0, std::memory_order_release);
  node.engine_key = 0;
  free_[number / 64] |= uint64_t{1} << number % 64;
  ++free_count_;
}

}  // namespace llmd::kv
