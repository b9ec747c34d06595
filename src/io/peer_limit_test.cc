#include "io/peer_limit.h"

#include <gtest/gtest.h>

#include <vector>

namespace llmd::io {
namespace {

SocketAddress peer(std::string_view address, uint16_t port = 1) {
  return *SocketAddress::parse(address, port);
}

TEST(PeerLimit, CountsAddressesAndIPv6Networks) {
  PeerLimit limit(1, 7);
  const auto a = limit.take(peer("10.0.0.1"));
  EXPECT_TRUE(a);
  EXPECT_FALSE(limit.take(peer("10.0.0.1", 2)));
  EXPECT_TRUE(limit.take(peer("10.0.0.2")));
  EXPECT_FALSE(limit.take(peer("::ffff:10.0.0.1"))) << "the same peer over a v6 socket";
  const auto b = limit.take(peer("2001:db8:0:1::1"));
  EXPECT_TRUE(b);
  EXPECT_FALSE(limit.take(peer("2001:db8:0:1:ffff::2")));
  EXPECT_TRUE(limit.take(peer("2001:db8:0:2::1")));
}

TEST(PeerLimit, PlacesComeBack) {
  PeerLimit limit(2, 7);
  auto a = limit.take(peer("10.0.0.1"));
  auto b = limit.take(peer("10.0.0.1"));
  EXPECT_FALSE(limit.take(peer("10.0.0.1")));
  {
    const auto moved = std::move(a);
    EXPECT_TRUE(moved);
  }
  a = limit.take(peer("10.0.0.1"));
  EXPECT_TRUE(a);
  EXPECT_FALSE(limit.take(peer("10.0.0.1"))) << "refusals hold no place";
}

TEST(PeerLimit, ManyPeersDoNotStandInEachOthersWay) {
  PeerLimit limit(4, 20261129);
  std::vector<PeerLimit::Place> places;
  int refused = 0;
  for (int i = 0; i < 2000; ++i)
    for (int k = 0; k < 4; ++k) {
      places.push_back(
          limit.take(peer("10.1." + std::to_string(i / 250) + "." + std::to_string(i % 250))));
      refused += !places.back();
    }
  EXPECT_LE(refused, 40);  // 2000 peers at the cap share both places with about 8 others' sums
}

}  // namespace
}  // namespace llmd::io
