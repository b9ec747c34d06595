#include "fleet/address.h"

#include <gtest/gtest.h>

namespace llmd::fleet {
namespace {

using namespace std::string_view_literals;

TEST(Address, KnowsIpv4) {
  EXPECT_TRUE(is_ipv4("10.0.0.1"));
  for (const auto text :
       {""sv, "10.0.0"sv, "10.0.0.256"sv, "10.0.0.1 "sv, "::1"sv, "010.0.0.1x"sv, "1.2.3.4\0x"sv})
    EXPECT_FALSE(is_ipv4(text)) << text;
}

TEST(Address, WritesIpv6InItsCanonicalForm) {
  EXPECT_EQ(canonical_ipv6("FD00:0:0::1"), "fd00::1");
  EXPECT_EQ(canonical_ipv6("::"), "::");
  EXPECT_EQ(canonical_ipv6("fe80::1%eth0"), std::nullopt);
  EXPECT_EQ(canonical_ipv6("1.2.3.4"), std::nullopt);
}

TEST(Address, KnowsHostNames) {
  for (const auto text : {"a", "gw.example.com", "vllm_1", "GW.x", "a-b.c9", "1a"})
    EXPECT_TRUE(is_host_name(text)) << text;
  for (const auto text : {"", ".", "a.", ".a", "a..b", "-a", "a-", "a b", "gw:443", "10.0.0",
                          "999.1.1.1", "12345", "ä"})
    EXPECT_FALSE(is_host_name(text)) << text;
  EXPECT_TRUE(is_host_name(std::string(63, 'a')));
  EXPECT_FALSE(is_host_name(std::string(64, 'a')));
}

TEST(Address, ReadsPorts) {
  EXPECT_EQ(parse_port("80"), 80);
  EXPECT_EQ(parse_port("+80"), 80);
  EXPECT_EQ(parse_port("080"), 80);
  EXPECT_EQ(parse_port("65535"), 65535);
  for (const auto text : {"", "+", "0", "65536", "-1", "8x", " 80", "99999999999999999999"})
    EXPECT_EQ(parse_port(text), std::nullopt) << text;
}

TEST(SystemResolver, AnswersLiteralsWithoutANetwork) {
  EXPECT_EQ(system_resolver()("127.0.0.1").value(), std::vector<std::string>{"127.0.0.1"});
  const auto bad = system_resolver()("no host");
  ASSERT_FALSE(bad);
  EXPECT_TRUE(bad.error().message.starts_with("host 'no host': ")) << bad.error().message;
}

}  // namespace
}  // namespace llmd::fleet
