#include "chain_links.h"

#include "base/check.h"

#include <algorithm>
#include <bit>
#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace llmd::kv {
namespace {

constexpr size_t kStripeBytes = 32;

// Of XXH64.
constexpr uint64_t kPrime1 = 0x9E3779B185EBCA87;
constexpr uint64_t kPrime2 = 0xC2B2AE3D27D4EB4F;
constexpr uint64_t kPrime3 = 0x165667B19E3779F9;
constexpr uint64_t kPrime4 = 0x85EBCA77C2B2AE63;
constexpr uint64_t kPrime5 = 0x27D4EB2F165667C5;

/// XXH64 with seed 0 of two words, without the library's loops over inputs of any size.
inline uint64_t hash_pair(uint64_t first, uint64_t second) {
  uint64_t hash = kPrime5 + 2 * sizeof(uint64_t);
  for (const uint64_t word : {first, second}) {
    hash ^= std::rotl(word * kPrime2, 31) * kPrime1;
    hash = std::rotl(hash, 27) * kPrime1 + kPrime4;
  }
  hash = (hash ^ hash >> 33) * kPrime2;
  hash = (hash ^ hash >> 29) * kPrime3;
  return hash ^ hash >> 32;
}

#if defined(__x86_64__)

#define LLMD_LANES [[gnu::target("avx512f,avx512dq"), gnu::always_inline]] inline

using Words = uint64_t __attribute__((vector_size(64)));   // a register
using Stripe = uint64_t __attribute__((vector_size(32)));  // lanes 1 to 4 of a block

/// Four registers with two blocks each become one with the hashes of eight.
constexpr size_t kGroupBlocks = 8;
/// Fewer blocks are through sooner one by one.
constexpr size_t kBlocksMin = 4;

constexpr uint64_t kLane1Start = kPrime1 + kPrime2;
constexpr uint64_t kLane4Start = -kPrime1;

LLMD_LANES Words rotated(Words words, int bits) {
  return words << bits | words >> (64 - bits);
}

LLMD_LANES Words scrambled(Words words) {
  return rotated(words * kPrime2, 31) * kPrime1;
}

/// The next stripes of two blocks, one behind the other.
LLMD_LANES Words stripes(const char* first, const char* second) {
  Stripe low;
  Stripe high;
  std::memcpy(&low, first, sizeof low);
  std::memcpy(&high, second, sizeof high);
  return __builtin_shufflevector(low, high, 0, 1, 2, 3, 4, 5, 6, 7);
}

LLMD_LANES Words absorbed(Words lanes, Words input) {
  return rotated(lanes + input * kPrime2, 31) * kPrime1;
}

/// The lanes of eight blocks on their way.
struct Group {
  Words pairs[4];
};

LLMD_LANES Group start() {
  const Words pair = {kLane1Start, kPrime2, 0, kLane4Start, kLane1Start, kPrime2, 0, kLane4Start};
  return {{pair, pair, pair, pair}};
}

LLMD_LANES void absorb(Group& group, const char* const* blocks, size_t at) {
  group.pairs[0] = absorbed(group.pairs[0], stripes(blocks[0] + at, blocks[1] + at));
  group.pairs[1] = absorbed(group.pairs[1], stripes(blocks[2] + at, blocks[3] + at));
  group.pairs[2] = absorbed(group.pairs[2], stripes(blocks[4] + at, blocks[5] + at));
  group.pairs[3] = absorbed(group.pairs[3], stripes(blocks[6] + at, blocks[7] + at));
}

LLMD_LANES Words merged(Words hash, Words lane) {
  return (hash ^ scrambled(lane)) * kPrime1 + kPrime4;
}

/// Makes the hashes of eight blocks from their lanes, as XXH64 does at the end of whole stripes.
LLMD_LANES void store(const Group& group, size_t block_bytes, uint64_t* hashes) {
  const Words* pairs = group.pairs;
  // Of four blocks each: lanes 1 and 2, lanes 3 and 4.
  const Words low12 = __builtin_shufflevector(pairs[0], pairs[1], 0, 4, 8, 12, 1, 5, 9, 13);
  const Words low34 = __builtin_shufflevector(pairs[0], pairs[1], 2, 6, 10, 14, 3, 7, 11, 15);
  const Words high12 = __builtin_shufflevector(pairs[2], pairs[3], 0, 4, 8, 12, 1, 5, 9, 13);
  const Words high34 = __builtin_shufflevector(pairs[2], pairs[3], 2, 6, 10, 14, 3, 7, 11, 15);
  // Of all eight: one lane.
  const Words lane1 = __builtin_shufflevector(low12, high12, 0, 1, 2, 3, 8, 9, 10, 11);
  const Words lane2 = __builtin_shufflevector(low12, high12, 4, 5, 6, 7, 12, 13, 14, 15);
  const Words lane3 = __builtin_shufflevector(low34, high34, 0, 1, 2, 3, 8, 9, 10, 11);
  const Words lane4 = __builtin_shufflevector(low34, high34, 4, 5, 6, 7, 12, 13, 14, 15);
  Words hash = rotated(lane1, 1) + rotated(lane2, 7) + rotated(lane3, 12) + rotated(lane4, 18);
  hash = merged(merged(merged(merged(hash, lane1), lane2), lane3), lane4) + block_bytes;
  hash = (hash ^ hash >> 33) * kPrime2;
  hash = (hash ^ hash >> 29) * kPrime3;
  hash ^= hash >> 32;
  std::memcpy(hashes, &hash, sizeof hash);
}

bool cpu_has_lanes() {
  static const bool has = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq");
  return has;
}

#else

bool cpu_has_lanes() {
  return false;
}

#endif

}  // namespace

ChainLinks::ChainLinks(uint64_t seed, size_t block_bytes, uint64_t* out)
    : block_bytes_(block_bytes),
      side_by_side_(block_bytes % kStripeBytes == 0 && cpu_has_lanes()),
      chain_{.previous = seed, .out = out} {}

[[gnu::always_inline]] inline void ChainLinks::Chain::link(const uint64_t* hashes, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    previous = hash_pair(hashes[i], previous);
    *out++ = previous;
  }
}

#if defined(__x86_64__)

/// Missing blocks are made up by hashing the last one again. Requires: 0 < blocks <= kGroups *
/// kGroupBlocks.
template <size_t kGroups>
[[gnu::target("avx512f,avx512dq")]] void ChainLinks::hash_side_by_side(const char* data,
                                                                       size_t blocks) {
  const char* block[kGroups * kGroupBlocks];
  for (size_t i = 0; i < std::size(block); ++i)
    block[i] = data + std::min(i, blocks - 1) * block_bytes_;
  const uint64_t* waiting = hashes_[waiting_in_];
  const uint64_t* const waiting_end = waiting + waiting_;
  const size_t links_a_step = (waiting_ * kStripeBytes + block_bytes_ - 1) / block_bytes_;
  Chain chain = chain_;  // in registers
  Group first = start();
  Group second = first;
  for (size_t at = 0; at < block_bytes_; at += kStripeBytes) {
    absorb(first, block, at);
    if constexpr (kGroups == 2) absorb(second, block + kGroupBlocks, at);
    const size_t links = std::min(links_a_step, static_cast<size_t>(waiting_end - waiting));
    chain.link(waiting, links);
    waiting += links;
  }
  chain_ = chain;
  waiting_in_ = 1 - waiting_in_;
  waiting_ = blocks;
  store(first, block_bytes_, hashes_[waiting_in_]);
  if constexpr (kGroups == 2) store(second, block_bytes_, hashes_[waiting_in_] + kGroupBlocks);
}

#endif

void ChainLinks::add(const char* data, size_t blocks) {
  CHECK(blocks <= kBlocksAtOnce);
#if defined(__x86_64__)
  if (side_by_side_ && blocks > kGroupBlocks) return hash_side_by_side<2>(data, blocks);
  if (side_by_side_ && blocks >= kBlocksMin) return hash_side_by_side<1>(data, blocks);
#endif
  uint64_t hashes[kBlocksAtOnce];
  for (size_t i = 0; i < blocks; ++i) hashes[i] = XXH64(data + i * block_bytes_, block_bytes_, 0);
  finish({}, 0);
  chain_.link(hashes, blocks);
}

void ChainLinks::finish(const char* last, size_t size) {
  chain_.link(hashes_[waiting_in_], waiting_);
  waiting_ = 0;
  if (size == 0) return;
  const uint64_t hash = XXH64(last, size, 0);
  chain_.link(&hash, 1);
}

}  // namespace llmd::kv
