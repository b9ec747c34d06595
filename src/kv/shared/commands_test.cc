#include "commands.h"

#include "redis/reply.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace llmd::kv_shared {
namespace {

using Keys = std::vector<uint64_t>;

/// Commands as lines of words; scripts are left out.
std::string told(std::string_view bytes) {
  std::string out;
  redis::ReplyScanner scanner(1 << 20);
  while (!bytes.empty()) {
    scanner.reset();
    const size_t size = scanner.scan(bytes);
    if (size >= redis::ReplyScanner::kBad) return "no commands";
    std::string line;
    redis::Reply(bytes).each([&](const redis::Reply& word) {
      line += line.empty() ? "" : " ";
      line += word.text().contains('\n') ? "SCRIPT" : word.text().empty() ? "''" : word.text();
    });
    out += line + "\n";
    bytes.remove_prefix(size);
  }
  return out;
}

std::string stored(const Keys& keys, const Keys& engine_keys) {
  std::string out;
  const size_t replies = append_store(out, "E", keys, engine_keys);
  out = told(out);
  EXPECT_EQ(replies, static_cast<size_t>(std::ranges::count(out, '\n')));
  return out;
}

// The keys of spec 05 §12, V1.
constexpr uint64_t kFirst = 0x8464eee8f2cf3412;
constexpr uint64_t kSecond = 0xead3c96aea607c7e;

TEST(Commands, NameKeysInDecimalDigits) {
  EXPECT_EQ(stored({kFirst, kSecond}, {17, UINT64_MAX}),
            "HSET 9540012594951042066 E ''\n"
            "HSET 16921089685996993662 E ''\n"
            "ZADD engine:17 0 9540012594951042066\n"
            "ZADD engine:18446744073709551615 0 16921089685996993662\n");
  EXPECT_EQ(stored({kFirst}, {}), "HSET 9540012594951042066 E ''\n");
}

/// Spec 05 §3.2.
TEST(Commands, MapEngineKeysToRequestKeys) {
  EXPECT_EQ(stored({1, 2, 3, 4}, {10, 11}),
            "HSET 1 E ''\nHSET 2 E ''\nHSET 3 E ''\nHSET 4 E ''\n"
            "ZADD engine:10 0 1\nZADD engine:10 1 2\nZADD engine:11 0 3\nZADD engine:11 1 4\n");
  EXPECT_EQ(stored({1}, {10, 11, 12}),
            "HSET 1 E ''\nZADD engine:10 0 1\nZADD engine:11 0 1\nZADD engine:12 0 1\n");
  EXPECT_EQ(stored({1, 2}, {10, 11, 12}),
            "HSET 1 E ''\nHSET 2 E ''\n"
            "ZADD engine:10 0 1\nZADD engine:11 0 1\nZADD engine:12 0 2\n");
  EXPECT_EQ(stored({1, 2, 3, 4}, {10, 11, 12, 13, 14}),
            "HSET 1 E ''\nHSET 2 E ''\nHSET 3 E ''\nHSET 4 E ''\n"
            "ZADD engine:10 0 1\nZADD engine:11 0 1\nZADD engine:12 0 2\nZADD engine:13 0 3\n"
            "ZADD engine:14 0 4\n");
}

TEST(Commands, RemoveByEngineKeysInOneScript) {
  std::string out;
  EXPECT_EQ(append_remove(out, "E", Keys{1, 2}), 1u);
  EXPECT_EQ(told(out), "EVAL SCRIPT 2 engine:1 engine:2 E\n");
  out.clear();
  EXPECT_EQ(append_remove(out, "E", Keys{}), 0u);
  EXPECT_EQ(append_remove(out, "E", Keys(1025, 7)), 3u) << "none holds up the server for long";
}

TEST(Commands, AskAndRemoveByRequestKeys) {
  std::string out;
  EXPECT_EQ(append_look_up(out, Keys{1, kFirst}), 2u);
  EXPECT_EQ(append_remove_keys(out, "E", Keys{1}), 1u);
  EXPECT_EQ(append_request_key(out, 17), 1u);
  EXPECT_EQ(append_clear_page(out, "10.0.0.1:8000", "12"), 1u);
  EXPECT_EQ(told(out),
            "HKEYS 1\nHKEYS 9540012594951042066\nHDEL 1 E\nZREVRANGE engine:17 0 0\n"
            "EVAL SCRIPT 0 10.0.0.1:8000 12\n");
}

}  // namespace
}  // namespace llmd::kv_shared
