#include "kv/block_hash.h"

#include "base/rng.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

namespace llmd::kv {
namespace {

using request::Piece;
using request::Prompt;

constexpr size_t kNoLimit = SIZE_MAX;

Piece bytes(std::string_view text) {
  return {.kind = Piece::Kind::kBytes, .text = text, .bytes = text.size()};
}
Piece escaped(std::string_view text, size_t unescaped_bytes) {
  return {.kind = Piece::Kind::kEscaped, .text = text, .bytes = unescaped_bytes};
}
Piece placeholder(uint32_t token, uint32_t count) {
  return {.kind = Piece::Kind::kPlaceholder, .token = token, .count = count};
}

std::vector<uint64_t> chain(const Prompt& prompt, std::string_view model, std::string_view salt,
                            size_t block, size_t limit = kNoLimit) {
  Arena arena;
  const auto hashes = block_hashes(prompt, chain_seed(model, salt), block, limit, arena);
  return {hashes.begin(), hashes.end()};
}
std::vector<uint64_t> of_pieces(std::vector<Piece> pieces, size_t block = 64,
                                std::string_view model = "m", std::string_view salt = "") {
  return chain({.pieces = pieces}, model, salt, block);
}
std::vector<uint64_t> of_ids(std::vector<uint32_t> ids, std::string_view model,
                             std::string_view salt, size_t block, size_t limit = kNoLimit) {
  return chain({.token_ids = ids}, model, salt, block, limit);
}
std::vector<uint32_t> counting(uint32_t n) {
  std::vector<uint32_t> ids(n);
  std::iota(ids.begin(), ids.end(), 1u);
  return ids;
}

using Hashes = std::vector<uint64_t>;

TEST(BlockHash, SeedVectors) {
  EXPECT_EQ(chain_seed("", ""), 0xef46db3751d8e999);
  EXPECT_EQ(chain_seed("abc", ""), 0x44bc2cf5ad770999);
  EXPECT_EQ(chain_seed("m", ""), 0xba2e567083a2b2e8);
  EXPECT_EQ(chain_seed("m", "s1"), 0xd8d6f4ca4a3290cd);
  EXPECT_EQ(chain_seed("ms1", ""), 0xd8d6f4ca4a3290cd);
  EXPECT_EQ(chain_seed("meta-llama/Llama-3.1-8B-Instruct", ""), 0xa903820a10f81cff);
}

TEST(BlockHash, TokenIdVectors) {
  EXPECT_EQ(of_ids(counting(200), "m", "", 64), (Hashes{0xe5a7cf657f82cb5b, 0x0eb77b4d2a83db16,
                                                        0xc40704307a1c3730, 0xc6290b4be36290fc}));
  EXPECT_EQ(of_ids(counting(200), "m", "s1", 64), (Hashes{0x9a35236867c01d2d, 0x26acc6db2684930a,
                                                          0x5c61a6bf98090ebd, 0x21177fce36fa42ab}));
  EXPECT_EQ(of_ids(counting(64), "ms1", "", 64), (Hashes{0x9a35236867c01d2d}));
  EXPECT_EQ(of_ids(counting(130), "meta-llama/Llama-3.1-8B-Instruct", "", 64),
            (Hashes{0xb094333e7fa4f0d4, 0x26717dfb2ce32e59, 0x0de543874fe4f39f}));
  EXPECT_EQ(of_ids(counting(5), "m", "", 64), (Hashes{0x6f8154dbfcf42a8f}));
  EXPECT_EQ(of_ids(counting(3), "", "", 64), (Hashes{0x2abffdfff96e9edc}));
  EXPECT_EQ(of_ids({0, 4294967295u, 7, 128000}, "m", "", 2),
            (Hashes{0x25f583a01ba7b640, 0xd95af66937009b7f}));
  EXPECT_EQ(of_ids({1, 2, 3}, "m", "", 64), (Hashes{0xb08219709bfa65f7}));
  EXPECT_EQ(of_ids(counting(5), "m", "", 2),
            (Hashes{0xbdeada2071943583, 0x7aacfb531261b051, 0x7e59226481d5dbc3}));
}

TEST(BlockHash, TextVectors) {
  EXPECT_EQ(of_pieces({bytes("Hello world")}), (Hashes{0xeebfe7b0a2b32b05}));
  EXPECT_EQ(of_pieces({bytes("Hello world")}, 64, "m", "s1"), (Hashes{0xdbf3f676d95f4e1f}));
  const std::vector<Piece> chat = {bytes("system"), bytes("You are helpful."), bytes("user"),
                                   bytes("Hi")};
  EXPECT_EQ(of_pieces(chat), (Hashes{0x1ac6b72bac5ce835}));
  EXPECT_EQ(of_pieces(chat, 64, "food-review"), (Hashes{0x90b31990f3a3f92b}));
  EXPECT_EQ(of_pieces({bytes(R"({"Raw":"hello","Strings":null,"TokenIDs":null})")}),
            (Hashes{0x470dbc4782548c47}));
  EXPECT_EQ(of_pieces({bytes(R"([{"type":"message","role":"user","content":"hi"}])")}),
            (Hashes{0x77b49de6400e883b}));
  const std::string a(600, 'a');
  EXPECT_EQ(of_pieces({bytes(a)}),
            (Hashes{0x3f61340d0ed082d6, 0x04e61d707a6fb751, 0xb66f4b25d7036ead}));
}

TEST(BlockHash, PlaceholderVector) {
  // Text "userhi", then an image whose content hash is 9f4fdeae6ee1ceba.
  const std::vector<Piece> chat = {bytes("user"), bytes("hi"), placeholder(0x6ee1ceba, 225)};
  EXPECT_EQ(of_pieces(chat), (Hashes{0x6ada762fb70deb97, 0x9f0bf4816483315a, 0xdececa73c8b3c1de,
                                     0x343309addb3e9023}));
  EXPECT_EQ(token_count({.pieces = chat}), 227);
}

TEST(BlockHash, NothingToHash) {
  EXPECT_TRUE(of_pieces({}).empty());
  EXPECT_TRUE(of_pieces({bytes("")}).empty());
  EXPECT_TRUE(of_ids(counting(200), "m", "", 64, 0).empty());
}

TEST(BlockHash, StopsAtTheLimit) {
  const auto whole = of_ids(counting(200), "m", "", 64);
  EXPECT_EQ(of_ids(counting(200), "m", "", 64, 2), (Hashes{whole[0], whole[1]}));
}

TEST(BlockHash, PiecesCountAsTheirConcatenation) {
  Rng rng(7);
  std::string text(5000, ' ');
  for (auto& c : text) c = static_cast<char>('a' + rng.below(26));
  const auto whole = of_pieces({bytes(text)});
  for (int round = 0; round < 50; ++round) {
    std::vector<Piece> pieces;
    for (size_t at = 0; at < text.size();) {
      const size_t size = std::min<size_t>(rng.below(700), text.size() - at);
      pieces.push_back(bytes(std::string_view(text).substr(at, size)));
      at += size;
    }
    ASSERT_EQ(of_pieces(pieces), whole) << "round " << round;
  }
}

TEST(BlockHash, EscapedTextCountsAsItsBytes) {
  struct Unit {
    std::string_view written, meant;
  };
  const std::vector<Unit> units = {{"a", "a"},
                                   {"\\n", "\n"},
                                   {"\\\\", "\\"},
                                   {"\\u00e9", "\xc3\xa9"},
                                   {"\\ud83d\\ude00", "\xf0\x9f\x98\x80"},
                                   {"plain text", "plain text"}};
  Rng rng(11);
  for (int round = 0; round < 60; ++round) {
    // Rounds with few plain units exercise parts without any safe place to cut.
    const uint64_t kinds = round % 3 == 0 ? 5 : units.size();
    const uint64_t first = round % 3 == 0 ? 1 : 0;
    std::string written, meant;
    while (written.size() < 20'000) {
      const auto& unit = units[first + rng.below(kinds - first)];
      written += unit.written;
      meant += unit.meant;
    }
    ASSERT_EQ(of_pieces({escaped(written, meant.size())}), of_pieces({bytes(meant)}))
        << "round " << round;
  }
}

TEST(TokenCount, RoundsUpAtPlaceholdersAndAtTheEnd) {
  const std::vector<Piece> pieces = {bytes("abcde"), placeholder(1, 10), bytes("a"), bytes("bcd"),
                                     escaped("\\n", 1)};
  EXPECT_EQ(token_count({.pieces = pieces}), 2 + 10 + 2);
  const std::vector<uint32_t> ids = {1, 2, 3};
  EXPECT_EQ(token_count({.token_ids = ids}), 3);
  EXPECT_EQ(token_count({}), 0);
}

}  // namespace
}  // namespace llmd::kv
