#include "chain_links.h"

#include "base/rng.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace llmd::kv {
namespace {

constexpr uint64_t kSeed = 0xba2e567083a2b2e8;

/// The definition, one block after the other.
std::vector<uint64_t> chain_of(std::string_view text, size_t block_bytes) {
  std::vector<uint64_t> links;
  uint64_t previous = kSeed;
  for (; !text.empty(); text.remove_prefix(std::min(block_bytes, text.size()))) {
    const auto block = text.substr(0, block_bytes);
    const uint64_t pair[2] = {XXH64(block.data(), block.size(), 0), previous};
    previous = XXH64(pair, sizeof pair, 0);
    links.push_back(previous);
  }
  return links;
}

TEST(ChainLinks, EqualTheDefinitionForAnySizeAlignmentAndNumberOfBlocks) {
  Rng rng(5);
  std::string text(400'000, ' ');
  for (char& c : text) c = static_cast<char>(rng.below(256));
  for (const size_t block_bytes : {4, 28, 32, 36, 64, 96, 128, 224, 256, 260, 512, 1024, 4096}) {
    for (size_t blocks = 0; blocks <= 40; ++blocks) {
      const size_t last = rng.below(block_bytes);
      const auto whole = std::string_view(text).substr(rng.below(64), blocks * block_bytes + last);
      std::vector<uint64_t> links(blocks + (last > 0));
      ChainLinks chain(kSeed, block_bytes, links.data());
      auto rest = whole;
      while (rest.size() >= block_bytes) {
        const size_t most = std::min(rest.size() / block_bytes, kBlocksAtOnce);
        const size_t some = rng.below(2) == 0 ? most : 1 + rng.below(most);
        chain.add(rest.data(), some);
        rest.remove_prefix(some * block_bytes);
      }
      chain.finish(rest.data(), rest.size());
      ASSERT_EQ(links, chain_of(whole, block_bytes))
          << blocks << " blocks of " << block_bytes << " bytes and " << last << " more";
    }
  }
}

}  // namespace
}  // namespace llmd::kv
