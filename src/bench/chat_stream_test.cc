#include "bench/chat_stream.h"

#include <gtest/gtest.h>

#include <string>

namespace llmd::bench {
namespace {

TimePoint at(int ms) {
  return TimePoint(std::chrono::milliseconds(ms));
}

constexpr std::string_view kRole =
    "data: "
    "{\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}],\"usage\":null}\n\n";
constexpr std::string_view kText =
    "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}],\"usage\":null}\n\n";
constexpr std::string_view kUsage =
    "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":2}}\r\n\r\n";

TEST(ChatStream, TimesTheFirstTextNotTheRoleEvent) {
  ChatStream stream;
  stream.feed(kRole, at(1));
  EXPECT_FALSE(stream.first_content());
  stream.feed(kText, at(2));
  stream.feed(kText, at(5));
  EXPECT_EQ(stream.first_content(), at(2));
  EXPECT_EQ(stream.last_content(), at(5));
  EXPECT_EQ(stream.content_events(), 2);
}

TEST(ChatStream, ReadsCompletionsToo) {
  ChatStream stream;
  stream.feed("data: {\"choices\":[{\"text\":\"\"}]}\n\ndata: {\"choices\":[{\"text\":\"a\"}]}\n\n",
              at(3));
  stream.feed(
      "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":1,"
      "\"prompt_tokens_details\":{\"cached_tokens\":8}}}\n\n",
      at(4));
  EXPECT_EQ(stream.content_events(), 1);
  EXPECT_EQ(stream.prompt_tokens(), 9);
  EXPECT_EQ(stream.cached_tokens(), 8);
}

TEST(ChatStream, ReadsEventsCutAnywhere) {
  const std::string all =
      std::string(kRole) + std::string(kText) + std::string(kUsage) + "data: [DONE]\n\n";
  for (size_t cut = 0; cut <= all.size(); ++cut) {
    ChatStream stream;
    stream.feed(std::string_view(all).substr(0, cut), at(1));
    stream.feed(std::string_view(all).substr(cut), at(2));
    EXPECT_EQ(stream.content_events(), 1) << cut;
    EXPECT_EQ(stream.prompt_tokens(), 9) << cut;
    EXPECT_EQ(stream.completion_tokens(), 2) << cut;
    EXPECT_TRUE(stream.done()) << cut;
    EXPECT_FALSE(stream.failed()) << cut;
  }
}

TEST(ChatStream, FailsOnErrorEventsAndGarbage) {
  ChatStream error, garbage;
  error.feed("data: {\"error\":{\"message\":\"no\"}}\n\n", at(1));
  EXPECT_TRUE(error.failed());
  garbage.feed("data: {\"choices\n\n", at(1));
  EXPECT_TRUE(garbage.failed());
}

TEST(ChatStream, SkipsCommentsAndOtherFields) {
  ChatStream stream;
  stream.feed(": keep-alive\nevent: message\nid: 7\n\n", at(1));
  EXPECT_FALSE(stream.failed());
  EXPECT_EQ(stream.content_events(), 0);
}

}  // namespace
}  // namespace llmd::bench
