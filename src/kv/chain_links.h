#pragma once

#include <cstddef>
#include <cstdint>

namespace llmd::kv {

/// Blocks that are hashed at once.
inline constexpr size_t kBlocksAtOnce = 16;

/// Turns blocks into a hash chain: link n = XXH64(XXH64(block n), link n - 1), all seeds 0.
///
/// The hash of a block depends on nothing else, so with AVX-512 sixteen blocks are hashed side by
/// side. The links must be made one after the other, 25 cycles each; those of the sixteen blocks
/// before are made between the steps of these, so that the processor has both to do at any time.
/// Without AVX-512, and for sizes that are no multiple of the 32 bytes of a stripe, each block is
/// hashed on its own.
/// Threading: one thread at a time.
class ChainLinks {
 public:
  /// Links are written to `out` and the places behind it.
  ChainLinks(uint64_t seed, size_t block_bytes, uint64_t* out);

  /// Adds blocks that stand one after the other in memory. Their links may be missing until
  /// finish(). Requires: blocks <= kBlocksAtOnce.
  void add(const char* data, size_t blocks);

  /// Makes the links that are missing and one more of a last, shorter block, unless it is empty.
  void finish(const char* last, size_t size);

 private:
  struct Chain {
    void link(const uint64_t* hashes, size_t count);
    uint64_t previous;
    uint64_t* out;
  };
  template <size_t kGroups>
  void hash_side_by_side(const char* data, size_t blocks);

  const size_t block_bytes_;
  const bool side_by_side_;
  Chain chain_;
  uint64_t hashes_[2][kBlocksAtOnce];  // those that wait for their links, and the next
  size_t waiting_ = 0;                 // how many do
  size_t waiting_in_ = 0;              // in which half
};

}  // namespace llmd::kv
