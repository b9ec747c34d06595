#include "redis/address.h"

#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <vector>

namespace llmd::redis {
namespace {

TEST(ParseAddress, ReadsUrls) {
  const std::vector<std::pair<std::string_view, Address>> cases = {
      {"redis://127.0.0.1:6379", {.host = "127.0.0.1"}},
      {"redis://cache", {.host = "cache"}},
      {"redis://", {.host = "localhost"}},
      {"cache:7000", {.host = "cache", .port = 7000}},
      {"10.0.0.1", {.host = "10.0.0.1"}},
      {"valkey://cache:7000/3", {.host = "cache", .port = 7000, .database = 3}},
      {"rediss://cache/", {.host = "cache", .tls = true}},
      {"valkeys://cache", {.host = "cache", .tls = true}},
      {"redis://[::1]:7000", {.host = "::1", .port = 7000}},
      {"redis://[::1]", {.host = "::1"}},
      {"redis://bob:a%40b%3a@cache", {.host = "cache", .user = "bob", .password = "a@b:"}},
      {"redis://:word@cache", {.host = "cache", .password = "word"}},
      {"redis://:w@rd@cache", {.host = "cache", .password = "w@rd"}},
      {"unix:///run/redis.sock", {.socket_path = "/run/redis.sock"}},
      {"unix://:word@/run/redis.sock?db=2",
       {.socket_path = "/run/redis.sock", .password = "word", .database = 2}},
  };
  for (const auto& [text, expected] : cases) {
    const auto address = parse_address(text);
    ASSERT_TRUE(address) << text << ": " << address.error().message;
    EXPECT_EQ(*address, expected) << text;
  }
}

TEST(ParseAddress, NamesWhatIsWrong) {
  const std::vector<std::pair<std::string_view, std::string>> cases = {
      {"reddis://cache",
       "'reddis' is no scheme of a Redis URL: one of redis, rediss, valkey, valkeys, unix (did you "
       "mean 'redis'?)"},
      {"redis://cache:0", "'0' is no port, 1 to 65535"},
      {"redis://cache:", "'' is no port, 1 to 65535"},
      {"redis://ca che", "'ca che' is no host name or address"},
      {"redis://[::1", "what stands in brackets is no IPv6 address"},
      {"redis://[::1]7", "what stands in brackets is no IPv6 address"},
      {"redis://cache/x", "'x' is no number of a database, 0 to 65535"},
      {"redis://cache/-1", "'-1' is no number of a database, 0 to 65535"},
      {"redis://:secret%4@cache", "the user or the password is not percent-encoded rightly"},
      {"redis://:secret%4x@cache", "the user or the password is not percent-encoded rightly"},
      {"unix://run/redis.sock", "'run/redis.sock' is no absolute path of at most 107 bytes"},
      {"unix:///run/redis.sock?pool=2", "'?pool=2': only ?db=NUMBER may follow the path"},
  };
  for (const auto& [text, message] : cases) {
    const auto address = parse_address(text);
    ASSERT_FALSE(address) << text;
    EXPECT_EQ(address.error().message, message);
  }
}

TEST(Address, IsNamedWithoutWhatIsSecret) {
  for (const auto& [text, name] : std::vector<std::pair<std::string_view, std::string_view>>{
           {"valkeys://bob:word@[::1]/2", "rediss://[::1]:6379/2"},
           {"cache", "redis://cache:6379/0"},
           {"unix://:word@/run/redis.sock", "unix:///run/redis.sock"},
           {"unix:///run/redis.sock?db=2", "unix:///run/redis.sock?db=2"}})
    EXPECT_EQ(parse_address(text)->name(), name);
}

}  // namespace
}  // namespace llmd::redis
