#include "usage_scan.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

namespace llmd::request {
namespace {

using Make = UsageScan* (*)(Arena&);

template <UsageFormat format>
UsageScan* json(Arena& arena) {
  return scan_json_usage(format, arena);
}
template <UsageFormat format>
UsageScan* sse(Arena& arena) {
  return scan_sse_usage(format, arena);
}
constexpr Make kJson = json<UsageFormat::kOpenAi>;
constexpr Make kSse = sse<UsageFormat::kOpenAi>;

struct Seen {
  Usage usage;
  uint64_t events;
};

Seen read(Make make, std::string_view text, size_t step) {
  Arena arena;
  UsageScan* scan = make(arena);
  for (size_t at = 0; at < text.size(); at += step) scan->feed(std::string(text.substr(at, step)));
  scan->finish();
  return {scan->usage(), scan->events()};
}

/// Reads `text` cut into pieces of every size and expects the same each time.
void expect_usage(Make make, std::string_view text, int64_t prompt, int64_t completion,
                  int64_t total, std::optional<int64_t> cached, uint64_t events = 0) {
  for (size_t step = 1; step <= text.size(); step = step < 100 ? step + 1 : step * 2) {
    const Seen seen = read(make, text, step);
    ASSERT_TRUE(seen.usage.present) << text << " in pieces of " << step;
    EXPECT_EQ(seen.usage.prompt_tokens, prompt) << text;
    EXPECT_EQ(seen.usage.completion_tokens, completion) << text;
    EXPECT_EQ(seen.usage.total_tokens, total) << text;
    EXPECT_EQ(seen.usage.cached_tokens, cached) << text;
    EXPECT_EQ(seen.events, events) << text << " in pieces of " << step;
  }
}

TEST(JsonUsage, ReadsTheUsageObject) {
  expect_usage(
      kJson,
      R"({"id":"x","choices":[{"text":"usage"}],"usage":{"prompt_tokens":11,"total_tokens":18,)"
      R"("completion_tokens":7,"prompt_tokens_details":{"cached_tokens":8}}})",
      11, 7, 18, 8);
  expect_usage(kJson, R"({"usage":{"input_tokens":"3","output_tokens":4}})", 3, 4, 7, std::nullopt);
  expect_usage(kJson, R"({"usage":{"prompt_tokens":null,"input_tokens":3,"total_tokens":9}})", 3, 0,
               3, std::nullopt);
  expect_usage(
      kJson,
      R"({"usage":{"prompt_tokens":5,"input_tokens":3,"completion_tokens":0,"total_tokens":5,)"
      R"("input_tokens_details":{"cached_tokens":2},"prompt_tokens_details":{"cached_tokens":1}}})",
      5, 0, 5, 2);
  expect_usage(kJson, R"({"usage":{"prompt_tokens":5,"prompt_tokens_details":null}})", 5, 0, 5,
               std::nullopt);
}

TEST(JsonUsage, AbsentOrBrokenUsageIsNone) {
  for (std::string_view text :
       {"", "not json", "{}", R"({"usage":null})", R"({"usage":[1]})",
        R"({"x":{"usage":{"prompt_tokens":1}}})", "{\"usage\":{\"prompt_tokens\":1"})
    EXPECT_FALSE(read(kJson, text, 5).usage.present) << text;
}

constexpr std::string_view kStream =
    "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}],\"usage\":null}\n\n"
    "data: {\"choices\":[{\"delta\":{\"content\":\" usage\"}}]}\n\n"
    "data: "
    "{\"choices\":[],\"usage\":{\"prompt_tokens\":12,\"total_tokens\":15,\"completion_tokens\":3,"
    "\"prompt_tokens_details\":{\"cached_tokens\":4}}}\n\n"
    "data: [DONE]\n\n";

TEST(SseUsage, ReadsUsageWhereverTheChunksAreCut) {
  expect_usage(kSse, kStream, 12, 3, 15, 4, 3);
}

TEST(SseUsage, LaterCountsReplaceEarlierOnes) {
  expect_usage(
      kSse,
      "data: {\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":1,\"total_tokens\":6}}\n\n"
      "data: {\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":2,\"total_tokens\":7}}\r\n\r\n",
      5, 2, 7, std::nullopt, 2);
  expect_usage(
      kSse,
      "data: {\"usage\":{\"input_tokens\":9,\"input_tokens_details\":{\"cached_tokens\":3}}}\n\n"
      "data: {\"usage\":{\"output_tokens\":4}}\n\n",
      9, 4, 13, 3, 2);
}

TEST(SseUsage, ReadsTheLastEventOfTheResponsesApi) {
  expect_usage(
      kSse,
      "event: response.created\ndata: "
      "{\"type\":\"response.created\",\"response\":{\"usage\":null}}\n\n"
      "event: response.completed\ndata: "
      "{\"type\":\"response.completed\",\"response\":{\"output\":[\"" +
          std::string(3000, 'x') +
          "\"],\"usage\":{\"input_tokens\":21,\"output_tokens\":2,\"total_tokens\":23}}}\n\n",
      21, 2, 23, std::nullopt, 2);
}

TEST(SseUsage, CountsEventsWithoutUsage) {
  const Seen seen = read(kSse, "data: {}\n\ndata: {\"usage\": null}\n\ndata: [DONE]\r\n\r\n", 3);
  EXPECT_FALSE(seen.usage.present);
  EXPECT_EQ(seen.events, 2u);
}

std::string recorded(const char* name) {
  std::ifstream file(std::string(LLMD_SOURCE_DIR "/tests/data/vllm/") + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(UsageScan, ReadsRecordedAnswersOfVllm) {
  expect_usage(kSse, recorded("answer-chat-stream.sse"), 15, 8, 23, 0, 10);
  expect_usage(kSse, recorded("answer-chat-continuous.sse"), 15, 8, 23, 0, 10);
  expect_usage(kJson, recorded("answer-responses.json"), 10, 4, 14, 0);
}

TEST(JsonUsage, ReadsOtherFamilies) {
  expect_usage(json<UsageFormat::kAnthropic>,
               R"({"usage":{"input_tokens":25,"cache_read_input_tokens":5,"output_tokens":15}})",
               25, 15, 40, 5);
  expect_usage(
      json<UsageFormat::kSglang>,
      R"({"text":"hi","meta_info":{"prompt_tokens":3,"completion_tokens":2,"cached_tokens":1}})", 3,
      2, 5, 1);
}

TEST(SseUsage, MergesTheTwoEventsOfAnthropic) {
  expect_usage(sse<UsageFormat::kAnthropic>,
               "event: message_start\n"
               "data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":25,"
               "\"cache_read_input_tokens\":10,\"output_tokens\":1}}}\n\n"
               "event: content_block_delta\n"
               "data: {\"type\":\"content_block_delta\",\"delta\":{\"text\":\"usage\"}}\n\n"
               "event: message_delta\n"
               "data: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":7}}\n\n"
               "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
               25, 7, 32, 10, 4);
}

TEST(SseUsage, TakesTheLastEventOfSglang) {
  expect_usage(sse<UsageFormat::kSglang>,
               "data: {\"text\":\"a\",\"meta_info\":{\"finish_reason\":null,\"prompt_tokens\":4,"
               "\"completion_tokens\":1}}\n\n"
               "data: {\"text\":\"ab\",\"meta_info\":{\"finish_reason\":{\"type\":\"stop\"},"
               "\"prompt_tokens\":4,\"completion_tokens\":2,\"cached_tokens\":0}}\n\n"
               "data: [DONE]\n\n",
               4, 2, 6, 0, 2);
}

}  // namespace
}  // namespace llmd::request
