#include "base/keyed_hash.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace llmd {
namespace {

/// The key of SipHash's published vectors: bytes 00 to 0f.
constexpr HashSecret kKnown = {0x0706050403020100, 0x0f0e0d0c0b0a0908};

TEST(KeyedHash, IsSipHash13) {
  const std::pair<size_t, uint64_t> cases[] = {
      {0, 0xabac0158050fc4dc}, {1, 0xc9f49bf37d57ca93},  {7, 0xd3927d989bb11140},
      {8, 0x369095118d299a8e}, {15, 0xd320d86d2a519956}, {63, 0x9d199062b7bbb3a8},
  };
  std::string bytes;
  for (char c = 0; c < 64; ++c) bytes += c;
  for (const auto& [size, hash] : cases)
    EXPECT_EQ(keyed_hash(std::string_view(bytes).substr(0, size), kKnown), hash) << size;
}

TEST(KeyedHash, PlacesKeysByASecret) {
  constexpr HashSecret kOther = {1, 2};
  EXPECT_NE(keyed_hash("tenant", kKnown), keyed_hash("tenant", kOther));
  EXPECT_NE(keyed_hash(7u, kKnown), keyed_hash(7u, kOther));
  EXPECT_EQ(process_secret(), process_secret());
  EXPECT_NE(process_secret()[0], process_secret()[1]);
  EXPECT_EQ(KeyedHash()("tenant"), keyed_hash("tenant", process_secret()));
}

/// Numbers that agree in all bits but a few fall into one place under a mask of the others.
TEST(KeyedHash, SpreadsNumbersThatDifferInFewBits) {
  for (int shift = 0; shift < 60; ++shift) {
    std::set<uint64_t> low;
    std::set<uint64_t> high;
    for (uint64_t i = 0; i < 16; ++i) {
      const uint64_t hash = keyed_hash(i << shift, kKnown);
      low.insert(hash & 0xffff);
      high.insert(hash >> 20 & 0xffff);
    }
    EXPECT_GE(low.size(), 15u) << shift;
    EXPECT_GE(high.size(), 15u) << shift;
  }
}

}  // namespace
}  // namespace llmd
