#include "block_digest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <fstream>
#include <map>
#include <numeric>
#include <vector>

namespace llmd::sim {
namespace {

using nlohmann::json;

std::string hex(const Digest& digest) {
  return fmt::format("{:02x}", fmt::join(digest, ""));
}

std::vector<uint32_t> tokens_from(uint32_t first, size_t n) {
  std::vector<uint32_t> tokens(n);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

TEST(DigestChain, FollowsTheReferenceVectors) {
  DigestChain chain("0");
  EXPECT_EQ(hex(chain.root()), "4e1195df020de59e0d65a33a4279f1183e7ae4e5d980e309f8b55adff2e61c3e");
  const Digest first = chain.next(chain.root(), tokens_from(1, 16), {});
  EXPECT_EQ(hex(first), "202da172482d928bbc42ab25b0151e2b895f13f41002e27b2ceabcfae6d332ea");
  EXPECT_EQ(short_hash(first), 3236607068019569386u);
  const Digest second = chain.next(first, tokens_from(17, 16), {});
  EXPECT_EQ(hex(second), "4a0a393805c6d2f0ed831000d41bb65980336c4c04895d5e26470bbec927f5bf");
  EXPECT_EQ(short_hash(second), 2758186210834249151u);
}

TEST(DigestChain, TakesVllmsTextWithoutASeed) {
  EXPECT_EQ(hex(DigestChain("").root()),
            "9bd96a485ad84efdafb72ee48a1d7a69bcead0f8f0433173941b276b9581eef0");
}

TEST(DigestChain, TellsAdaptersByNameAndPath) {
  DigestChain chain("0");
  const auto tokens = tokens_from(1, 16);
  const Digest base = chain.next(chain.root(), tokens, {});
  const Digest one = chain.next(chain.root(), tokens, {.lora_name = "a", .lora_path = "x"});
  const Digest two = chain.next(chain.root(), tokens, {.lora_name = "a", .lora_path = "y"});
  EXPECT_NE(base, one);
  EXPECT_NE(one, two);
}

/// Every run of blocks that a real vLLM stored has the hashes that follow from its tokens.
TEST(DigestChain, GivesTheHashesOfARealEngine) {
  for (const auto& [name, seed] : {std::pair{"sha256_cbor", "0"}, {"llama3_bytes_noseed", ""}}) {
    std::ifstream file(fmt::format("{}/tests/data/vllm/events-{}.jsonl", LLMD_SOURCE_DIR, name));
    ASSERT_TRUE(file) << name;
    DigestChain chain(seed);
    std::map<uint64_t, Digest> known;
    size_t blocks = 0;
    const auto number = [](const json& hash) -> uint64_t {
      if (hash.is_number()) return hash.get<uint64_t>();
      return std::stoull(hash.at("hex").get<std::string>().substr(48), nullptr, 16);
    };
    for (std::string line; std::getline(file, line);) {
      const json message = json::parse(line);
      for (const json& event : message.at("decoded").at(1)) {
        if (event.at("type") != "BlockStored") continue;
        const json& parent = event.at("parent_block_hash");
        if (!parent.is_null() && !known.contains(number(parent))) continue;
        Digest last = parent.is_null() ? chain.root() : known.at(number(parent));
        const auto tokens = event.at("token_ids").get<std::vector<uint32_t>>();
        const size_t size = event.at("block_size");
        for (size_t i = 0; i < event.at("block_hashes").size(); ++i, ++blocks) {
          const json& extra = event.at("extra_keys").at(i);
          const std::string salt = extra.is_null() ? "" : extra.at(0).get<std::string>();
          last = chain.next(last, std::span(tokens).subspan(i * size, size), {.cache_salt = salt});
          const json& hash = event.at("block_hashes").at(i);
          EXPECT_EQ(short_hash(last), number(hash)) << line;
          if (hash.is_object()) {
            EXPECT_EQ(hex(last), hash.at("hex"));
          }
          known[short_hash(last)] = last;
        }
      }
    }
    EXPECT_GT(blocks, 50u) << name;
  }
}

}  // namespace
}  // namespace llmd::sim
