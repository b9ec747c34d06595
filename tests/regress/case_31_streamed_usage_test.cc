#include "usage_scan.h"

#include "base/arena.h"

#include <gtest/gtest.h>

namespace llmd::regress {
namespace {

using request::Usage;
using request::UsageFormat;

/// GIE#2026, llm-d-router#2437, #1276: counts of a stream were lost where it was cut, and those of
/// the prompt where they came in another event than those of the answer.

/// The counts of `stream`, cut once at every place and once into single bytes.
void expect_wherever_cut(UsageFormat format, std::string_view stream, const Usage& expected) {
  for (size_t cut = 0; cut <= stream.size() + 1; ++cut) {
    Arena arena(4096);
    auto* scan = request::scan_sse_usage(format, arena);
    if (cut <= stream.size()) {
      scan->feed(stream.substr(0, cut));
      scan->feed(stream.substr(cut));
    } else {
      for (const char byte : stream) scan->feed({&byte, 1});
    }
    scan->finish();
    ASSERT_EQ(scan->usage().prompt_tokens, expected.prompt_tokens) << cut;
    ASSERT_EQ(scan->usage().completion_tokens, expected.completion_tokens) << cut;
    ASSERT_EQ(scan->usage().cached_tokens, expected.cached_tokens) << cut;
  }
}

TEST(Case31, AnthropicsTwoHalves) {
  expect_wherever_cut(
      UsageFormat::kAnthropic,
      "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_"
      "tokens\":25,\"cache_read_input_tokens\":10,\"output_tokens\":1}}}\n\n"
      "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"delta\":{\"text\":"
      "\"usage\"}}\n\n"
      "event: message_delta\ndata: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":7}}\n\n"
      "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
      {.prompt_tokens = 25,
       .completion_tokens = 7,
       .total_tokens = 32,
       .cached_tokens = 10,
       .present = true});
}

TEST(Case31, OpenAisLastEvent) {
  expect_wherever_cut(
      UsageFormat::kOpenAi,
      "data: {\"choices\":[{\"text\":\"a\"}]}\n\ndata: "
      "{\"choices\":[],\"usage\":{\"prompt_tokens\":"
      "7,\"total_tokens\":17,\"completion_tokens\":10,\"prompt_tokens_details\":{\"cached_tokens\":"
      "4}}}\n\ndata: [DONE]\n\n",
      {.prompt_tokens = 7,
       .completion_tokens = 10,
       .total_tokens = 17,
       .cached_tokens = 4,
       .present = true});
}

TEST(Case31, TheEventThatEndsAResponse) {
  expect_wherever_cut(
      UsageFormat::kOpenAi,
      "event: response.completed\r\ndata: {\"type\":\"response.completed\",\"response\":{\"usage\":"
      "{\"input_tokens\":11,\"output_tokens\":6,\"total_tokens\":17,\"input_tokens_details\":{"
      "\"cached_tokens\":8}}}}\r\n\r\n",
      {.prompt_tokens = 11,
       .completion_tokens = 6,
       .total_tokens = 17,
       .cached_tokens = 8,
       .present = true});
}

}  // namespace
}  // namespace llmd::regress
