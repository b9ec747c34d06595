#include "io/socket.h"

#include <gtest/gtest.h>

namespace llmd::io {
namespace {

TEST(SocketAddress, ParsesLiteralsAndNothingElse) {
  EXPECT_EQ(SocketAddress::parse("10.0.0.7", 8000)->to_string(), "10.0.0.7:8000");
  EXPECT_EQ(SocketAddress::parse("fd00::1", 80)->to_string(), "[fd00::1]:80");
  EXPECT_EQ(SocketAddress::parse("", 80)->to_string(), "0.0.0.0:80");
  for (const auto* bad : {"localhost", "10.0.0", "[::1]", "10.0.0.1 ", "1:2:3"})
    EXPECT_FALSE(SocketAddress::parse(bad, 80)) << bad;
}

TEST(SocketAddress, ComparesByFamilyAddressAndPort) {
  const auto at = [](const char* address, uint16_t port) {
    return *SocketAddress::parse(address, port);
  };
  EXPECT_EQ(at("10.0.0.7", 1), at("10.0.0.7", 1));
  EXPECT_EQ(at("::1", 1).hash(), at("::1", 1).hash());
  EXPECT_FALSE(at("10.0.0.7", 1) == at("10.0.0.7", 2));
  EXPECT_FALSE(at("10.0.0.7", 1) == at("10.0.0.8", 1));
  EXPECT_FALSE(at("::1", 1) == at("::2", 1));
}

TEST(Listen, TakesAFreePortAndNamesTheAddressOfAFailure) {
  auto listener = listen_tcp(*SocketAddress::parse("127.0.0.1", 0));
  ASSERT_TRUE(listener);
  const auto address = SocketAddress::of(listener->get());
  EXPECT_NE(address.port(), 0);
  auto second = listen_tcp(address);
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().message.find(address.to_string()), std::string::npos);
}

TEST(Listen, SharesAPortWhenAsked) {
  auto first = listen_tcp(*SocketAddress::parse("127.0.0.1", 0), true);
  ASSERT_TRUE(first);
  EXPECT_TRUE(listen_tcp(SocketAddress::of(first->get()), true));
}

TEST(RaiseFileLimit, ReturnsTheLimitInForce) {
  EXPECT_GT(raise_file_limit(0), 0u);
}

TEST(SocketAddress, KnowsTheLoopbackInterface) {
  for (const auto* near : {"127.0.0.1", "127.9.8.7", "::1", "::ffff:127.0.0.1"})
    EXPECT_TRUE(SocketAddress::parse(near, 1)->is_loopback()) << near;
  for (const auto* far :
       {"10.0.0.1", "126.0.0.1", "0.0.0.0", "::", "2001:db8::1", "::ffff:10.0.0.1"})
    EXPECT_FALSE(SocketAddress::parse(far, 1)->is_loopback()) << far;
}

}  // namespace
}  // namespace llmd::io
