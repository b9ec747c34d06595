#include "base/counted_heap.h"
#include "kv/precise_index.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace llmd::regress {
namespace {

/// llm-d-router#2390: a prompt of 240 000 tokens among 96 endpoints took 674 ms and 13 GB of
/// garbage to look up. What it takes now is measured by the benchmark of the index.
TEST(Case33, LookingUpALongPromptAmongManyEndpointsAllocatesNothing) {
  constexpr size_t kKeys = 3750, kEndpoints = 96;
  kv::PreciseIndex index;
  std::vector<uint64_t> chain(kKeys);
  std::iota(chain.begin(), chain.end(), 1u);
  std::vector<kv::Holder> holders(kEndpoints);
  for (uint32_t slot = 0; slot < kEndpoints; ++slot) {
    holders[slot] = {.slot = slot, .generation = 1};
    index.store({.holder = holders[slot], .place = {}, .keys = chain, .engine_keys = {}});
  }
  kv::TierWeights weights;
  weights.fill(1);
  std::vector<kv::PrefixHit> hits(kEndpoints);
  index.match(chain, holders, weights, hits);  // a thread's first
  std::ranges::fill(hits, kv::PrefixHit{});
  const uint64_t before = counted_heap::allocations();
  index.match(chain, holders, weights, hits);
  EXPECT_EQ(counted_heap::allocations(), before);
  for (const auto& hit : hits) ASSERT_EQ(hit.blocks, kKeys);
}

}  // namespace
}  // namespace llmd::regress
