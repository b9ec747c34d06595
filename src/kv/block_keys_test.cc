#include "kv/block_keys.h"

#include "base/rng.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace llmd::kv {
namespace {

using enum KeyAlgorithm;
using Keys = std::vector<uint64_t>;
using Tokens = std::vector<uint32_t>;
using Extras = std::vector<Extra>;

Tokens counting(uint32_t n, uint32_t from = 1) {
  Tokens tokens(n);
  std::iota(tokens.begin(), tokens.end(), from);
  return tokens;
}

Keys chain(const BlockKeys& keys, uint64_t parent, const Tokens& tokens, const Extras& extras) {
  Keys out(keys.blocks_of(tokens.size()));
  keys.chain(parent, tokens, extras, out);
  return out;
}

struct Vector {
  std::string_view seed, model;
  size_t block;
  Tokens tokens;
  Extras extras;
  Keys cbor_fnv, xxh64;  // empty: not given
};

// Spec 05 §12, V1.
const Tokens kEdges = {0, 23, 24, 255, 256, 65535, 65536, 4294967295};
const std::vector<Vector> kVectors = {
    {"",
     "m",
     4,
     counting(8),
     {},
     {0xcbd1586ecc3519c9, 0x88ca5c4ae336e982},
     {0x545d26412a51d38e, 0x906da2cfdbcd5134}},
    {"",
     "m",
     4,
     kEdges,
     {},
     {0x8fac1f139f448ae9, 0xd5a3fad8e0a79d1c},
     {0x18b5e7511cf764de, 0x4cbaa95a751cfcb3}},
    {"",
     "test-model",
     16,
     counting(32),
     {},
     {0x8464eee8f2cf3412, 0xead3c96aea607c7e},
     {0xbc179097a38e1274, 0x893932c05ff064ac}},
    {"42",
     "test-model",
     16,
     counting(32),
     {},
     {0x2cf57333b30e2c21, 0xfedeec68f69848c6},
     {0x835a6f3e9221798f, 0x7e2da0d79d1ca65b}},
    {"",
     "test-model",
     64,
     counting(128),
     {},
     {0xe92a570b9a4ec9f2, 0xf462171de342bcb9},
     {0x10a1b11d0cd763cd, 0x5c02eeecdc60e1b6}},
    {"",
     "m",
     4,
     counting(8),
     {{0, "imgA"}},
     {0xb957f29d18643bb1, 0xc2bdcdab13aecd00},
     {0xe7c0ad2af1194534, 0x1870aaf55aa9a44b}},
    {"",
     "m",
     4,
     counting(8),
     {{0, "tenant-1", true}},
     {0x53d244753548894d, 0x944a37afc7ed200c},
     {0xc79ed8681cc70679, 0x82bc852c6c3fe428}},
    {"",
     "m",
     4,
     counting(8),
     {{0, "imgA"}, {0, "tenant-1", true}, {1, "imgA"}},
     {0x5ed2ca824a631b1f, 0x6b716b5dde000f8a},
     {}},
    {"", "adapter-1", 4, counting(4), {}, {0xf6b0da198c079f71}, {}},
    {"", "m", 8, counting(8), {{0, "imgA"}}, {0xb6a88a0b3719343d}, {}},
};

TEST(BlockKeys, EqualTheVectors) {
  for (size_t i = 0; i < kVectors.size(); ++i) {
    SCOPED_TRACE(i);
    const Vector& v = kVectors[i];
    for (const KeyAlgorithm algorithm : {kCborFnv, kXxh64}) {
      const Keys& expected = algorithm == kCborFnv ? v.cbor_fnv : v.xxh64;
      const BlockKeys keys(algorithm, v.seed, v.block);
      if (expected.empty()) continue;
      EXPECT_EQ(chain(keys, keys.root(v.model), v.tokens, v.extras), expected);
    }
  }
}

TEST(BlockKeys, RootsEqualTheVectors) {
  EXPECT_EQ(BlockKeys(kCborFnv, "", 4).root("m"), 0x9ddb2db69f3f452c);
  EXPECT_EQ(BlockKeys(kCborFnv, "", 4).root("test-model"), 0xf31309635ef2add0);
  EXPECT_EQ(BlockKeys(kCborFnv, "42", 4).root("test-model"), 0x3888e4ab5b23f4c9);
  EXPECT_EQ(BlockKeys(kXxh64, "", 4).root("m"), 0xc90cbf5421a4994b);
  EXPECT_EQ(BlockKeys(kXxh64, "", 4).root("test-model"), 0x09247acf12a72898);
  EXPECT_EQ(BlockKeys(kXxh64, "42", 4).root("test-model"), 0xdc16c78f344ac62c);
}

TEST(BlockKeys, GoOnFromAParentWhateverTheModel) {
  const BlockKeys keys(kCborFnv, "", 4);
  EXPECT_EQ(chain(keys, 0xcbd1586ecc3519c9, counting(4, 5), {}), (Keys{0x88ca5c4ae336e982}));
}

TEST(BlockKeys, LeaveOutTheTailAndExtrasInIt) {
  const BlockKeys keys(kXxh64, "", 4);
  EXPECT_EQ(chain(keys, keys.root("m"), counting(7), {{1, "imgA"}}), (Keys{0x545d26412a51d38e}));
  EXPECT_TRUE(chain(keys, keys.root("m"), counting(3), {}).empty());
}

/// The definition, one block after the other.
TEST(BlockKeys, Xxh64EqualsTheLibrarysForAnyBlockSize) {
  Rng rng(3);
  for (size_t block = 1; block <= 130; ++block) {
    Tokens tokens(block * 3);
    for (uint32_t& token : tokens) token = static_cast<uint32_t>(rng.next());
    const uint64_t root = rng.next();
    Keys expected;
    uint64_t parent = root;
    for (size_t i = 0; i < 3; ++i) {
      std::string bytes(reinterpret_cast<const char*>(&parent), sizeof parent);
      bytes.append(reinterpret_cast<const char*>(tokens.data() + i * block), block * 4);
      expected.push_back(parent = XXH64(bytes.data(), bytes.size(), 0));
    }
    ASSERT_EQ(chain(BlockKeys(kXxh64, "", block), root, tokens, {}), expected) << block;
  }
}

TEST(RequestExtras, NameItemsInEveryBlockTheyOverlap) {
  const std::vector<MediaItem> items = {{"c", 9, 100}, {"a", 2, 6}, {"", 0, 14}, {"b", 7, 1}};
  EXPECT_EQ(request_extras(items, "salt", 14, 4),
            (Extras{{0, "a"}, {0, "salt", true}, {1, "a"}, {1, "b"}, {2, "c"}}));
}

TEST(RequestExtras, OfItemsAtTheEdges) {
  EXPECT_EQ(request_extras({{"a", 4, 4}}, "", 12, 4), (Extras{{1, "a"}}));
  EXPECT_EQ(request_extras({{"a", 4, 0}}, "", 12, 4), Extras{});
  EXPECT_EQ(request_extras({{"a", SIZE_MAX, SIZE_MAX}}, "", 12, 4), Extras{});
  EXPECT_EQ(request_extras({}, "salt", 3, 4), Extras{}) << "no whole block";
}

TEST(RealignExtras, KeepsEqualSizes) {
  const Extras extras = {{0, "a"}, {0, "salt", true}, {3, "b"}};
  EXPECT_EQ(realign_extras(extras, 4, 4), extras);
}

TEST(RealignExtras, JoinsSmallEngineBlocks) {
  const Extras extras = {{0, "a"}, {0, "salt", true}, {1, "a"}, {1, "b"}, {3, "b"}};
  EXPECT_EQ(realign_extras(extras, 4, 2),
            (Extras{{0, "a"}, {0, "b"}, {0, "salt", true}, {1, "b"}}));
  EXPECT_EQ(realign_extras(std::vector<Extra>{{0, "imgA"}, {1, "imgA"}}, 2, 1),
            (Extras{{0, "imgA"}}));
}

TEST(RealignExtras, SplitsLargeEngineBlocks) {
  const Extras extras = {{0, "a"}, {0, "salt", true}, {1, "b"}};
  EXPECT_EQ(realign_extras(extras, 2, 4),
            (Extras{{0, "a"}, {0, "salt", true}, {1, "a"}, {2, "b"}, {3, "b"}}));
  EXPECT_EQ(realign_extras(extras, 2, 3),
            (Extras{{0, "a"}, {0, "salt", true}, {1, "a"}, {2, "b"}}));
}

TEST(RealignExtras, OfNothing) {
  EXPECT_EQ(realign_extras(std::vector<Extra>{{0, "a"}}, 1, 0), Extras{});
  EXPECT_EQ(realign_extras(std::vector<Extra>{{0, "a"}}, 0, 1), Extras{});
}

}  // namespace
}  // namespace llmd::kv
