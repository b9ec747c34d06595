#include "redis/reply.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace llmd::redis {
namespace {

using Type = Reply::Type;
using namespace std::string_literals;

constexpr size_t kMax = 1000;

/// A reply as text: a list in brackets, a text in quotes.
std::string told(const Reply& reply) {
  switch (reply.type()) {
    case Type::kStatus:
      return "+" + std::string(reply.text());
    case Type::kError:
      return "-" + std::string(reply.text());
    case Type::kInteger:
      return std::string(reply.text());
    case Type::kText:
      return "'" + std::string(reply.text()) + "'";
    case Type::kNone:
      return "none";
    case Type::kList:
      break;
  }
  std::string out = "[";
  reply.each([&](const Reply& value) { out += (out.size() > 1 ? " " : "") + told(value); });
  return out + "]";
}

struct Vector {
  std::string bytes, reply;
};

// From the protocol's specification, and what commands of the index answer.
const std::vector<Vector> kVectors = {
    {"+OK\r\n", "+OK"},
    {"+\r\n", "+"},
    {"-ERR unknown command 'asdf'\r\n", "-ERR unknown command 'asdf'"},
    {":0\r\n", "0"},
    {":-1000\r\n", "-1000"},
    {"$5\r\nhello\r\n", "'hello'"},
    {"$0\r\n\r\n", "''"},
    {"$4\r\n\r\n\r\n\r\n", "'\r\n\r\n'"},
    {"$-1\r\n", "none"},
    {"*0\r\n", "[]"},
    {"*-1\r\n", "none"},
    {"*2\r\n$5\r\nhello\r\n$5\r\nworld\r\n", "['hello' 'world']"},
    {"*3\r\n:1\r\n$-1\r\n+OK\r\n", "[1 none +OK]"},
    {"*2\r\n*2\r\n:1\r\n:2\r\n*2\r\n+Hello\r\n-World\r\n", "[[1 2] [+Hello -World]]"},
    {"*2\r\n$1\r\n0\r\n*1\r\n$1\r\nk\r\n", "['0' ['k']]"},
    {"$2\r\n\0\xff\r\n"s, "'\0\xff'"s},
};

TEST(ReplyScanner, FindsTheEndInWholeBytesWithOthersBehind) {
  for (const auto& [bytes, reply] : kVectors) {
    ReplyScanner scanner(kMax);
    ASSERT_EQ(scanner.scan(bytes + "+next\r\n"), bytes.size()) << bytes;
    EXPECT_EQ(told(Reply(bytes + "+next\r\n")), reply);
  }
}

TEST(ReplyScanner, FindsTheEndWhateverTheParts) {
  for (const auto& [bytes, reply] : kVectors)
    for (size_t step = 1; step < bytes.size(); ++step) {
      ReplyScanner scanner(kMax);
      for (size_t n = step; n < bytes.size(); n += step)
        ASSERT_EQ(scanner.scan(bytes.substr(0, n)), ReplyScanner::kMore) << bytes << n;
      EXPECT_EQ(scanner.scan(bytes), bytes.size()) << bytes << step;
    }
}

TEST(ReplyScanner, IsUsedAgain) {
  ReplyScanner scanner(kMax);
  EXPECT_EQ(scanner.scan("*1\r\n:1\r\n"), 8u);
  scanner.reset();
  EXPECT_EQ(scanner.scan("*1\r\n"), ReplyScanner::kMore);
}

TEST(ReplyScanner, RefusesWhatIsNoReply) {
  for (const std::string_view bytes :
       {"x", "HTTP/1.1 400\r\n", "\r\n", ":\r\n", ":1x\r\n", "$x\r\n", "$-2\r\n", "*-2\r\n",
        "$1\r\nab\r\n", "$1\r\na\n\r\n", "*1\r\nx", "%1\r\n+a\r\n+b\r\n", "$ 1\r\na\r\n",
        "$+1\r\na\r\n", "$99999999999999999999\r\n", "*9223372036854775807\r\n"}) {
    ReplyScanner scanner(kMax);
    EXPECT_EQ(scanner.scan(bytes), ReplyScanner::kBad) << bytes;
    EXPECT_EQ(scanner.scan(bytes), ReplyScanner::kBad) << bytes << ", and stays so";
  }
}

TEST(ReplyScanner, RefusesWhatIsTooLargeBeforeItIsThere) {
  EXPECT_EQ(ReplyScanner(9).scan("$3\r\nabc\r\n"), 9u);
  EXPECT_EQ(ReplyScanner(8).scan("$3\r\n"), ReplyScanner::kBad);
  EXPECT_EQ(ReplyScanner(8).scan("*9\r\n"), ReplyScanner::kBad);
  EXPECT_EQ(ReplyScanner(8).scan("*2\r\n*7\r\n"), ReplyScanner::kBad);
  EXPECT_EQ(ReplyScanner(8).scan("+1234567"), ReplyScanner::kBad);
  EXPECT_EQ(ReplyScanner(8).scan("+12345678\r\n"), ReplyScanner::kBad);
}

TEST(Command, IsAnArrayOfStrings) {
  std::string out;
  append_command(out, {"HSET", "k", "f\r\n", ""});
  append_command(out, {"PING"});
  EXPECT_EQ(out, "*4\r\n$4\r\nHSET\r\n$1\r\nk\r\n$3\r\nf\r\n\r\n$0\r\n\r\n*1\r\n$4\r\nPING\r\n");
}

}  // namespace
}  // namespace llmd::redis
