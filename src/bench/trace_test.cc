#include "bench/trace.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <string>

namespace llmd::bench {
namespace {

using namespace std::chrono_literals;

std::string error_of(std::string_view text) {
  const auto trace = parse_trace(text);
  return trace ? "" : trace.error().message;
}

std::vector<uint32_t> prompt_of(const TraceRequest& request, uint64_t number = 1) {
  return nlohmann::json::parse(trace_body(request, number, "m", 100))["prompt"];
}

TEST(Trace, ReadsMooncake) {
  const auto trace = parse_trace(
      "{\"timestamp\": 3000, \"input_length\": 600, \"output_length\": 5, \"hash_ids\": [0, 7]}\r\n"
      "\n"
      "{\"timestamp\": 1000, \"input_length\": 3, \"output_length\": 1, \"hash_ids\": [9]}");
  ASSERT_TRUE(trace);
  EXPECT_EQ(*trace, (Trace{{.at = 0ms, .input_tokens = 3, .output_tokens = 1, .pieces = {9}},
                           {.at = 2s, .input_tokens = 600, .output_tokens = 5, .pieces = {0, 7}}}));
}

TEST(Trace, ReadsAzure) {
  const auto trace = parse_trace(
      "TIMESTAMP,ContextTokens,GeneratedTokens\n"
      "2023-11-16 23:59:59.5000000,4808,10\n"
      "2023-11-17 00:00:01.2500000,3180,8\n");
  ASSERT_TRUE(trace);
  EXPECT_EQ(*trace,
            (Trace{{.at = 0ms, .input_tokens = 4808, .output_tokens = 10, .pieces = {}},
                   {.at = 1750ms, .input_tokens = 3180, .output_tokens = 8, .pieces = {}}}));
}

TEST(Trace, NamesTheLineThatIsWrong) {
  const std::string good = R"({"timestamp":0,"input_length":1,"output_length":1,"hash_ids":[1]})";
  EXPECT_NE(error_of(good + "\n{}").find("line 2: not an object with timestamp"),
            std::string::npos);
  for (const auto* wrong :
       {R"({"timestamp":-1,"input_length":1,"output_length":1,"hash_ids":[1]})",
        R"({"timestamp":9223372036854775807,"input_length":1,"output_length":1,"hash_ids":[1]})",
        R"({"timestamp":0,"input_length":1.5,"output_length":1,"hash_ids":[1]})",
        R"({"timestamp":0,"input_length":1,"output_length":99999999999,"hash_ids":[1]})",
        R"({"timestamp":0,"input_length":1,"output_length":1,"hash_ids":["a"]})", "[", "7"})
    EXPECT_NE(error_of(wrong), "") << wrong;
  for (const std::string when : {"2023-13-16 10:00:00", "9999-12-31 10:00:00"})
    EXPECT_NE(error_of("TIMESTAMP,ContextTokens,GeneratedTokens\n" + when + ",1,1").find("line 2"),
              std::string::npos);
  EXPECT_EQ(error_of("\n"), "no request in it");
  EXPECT_EQ(read_trace("/nowhere/t.jsonl").error().message,
            "/nowhere/t.jsonl: cannot be read: No such file or directory");
}

TEST(Trace, SharedPiecesAreSharedPrompts) {
  const auto one = prompt_of({.input_tokens = 1030, .pieces = {4, 5, 6}});
  const auto other = prompt_of({.input_tokens = 1100, .pieces = {4, 5, 7}});
  ASSERT_EQ(one.size(), 1030u);
  ASSERT_EQ(other.size(), 1100u);
  EXPECT_TRUE(std::equal(one.begin(), one.begin() + 1024, other.begin()));
  EXPECT_FALSE(std::equal(one.begin() + 1024, one.end(), other.begin() + 1024));
}

TEST(Trace, RequestsWithoutPiecesShareNothing) {
  const TraceRequest request{.input_tokens = 20, .pieces = {}};
  EXPECT_NE(prompt_of(request, 1), prompt_of(request, 2));
  EXPECT_EQ(prompt_of(request, 1), prompt_of(request, 1));
}

TEST(Trace, AsksForWhatWasGenerated) {
  const auto body = nlohmann::json::parse(
      trace_body({.input_tokens = 0, .output_tokens = 500, .pieces = {}}, 0, "a\"b", 64));
  EXPECT_EQ(body["model"], "a\"b");
  EXPECT_EQ(body["max_tokens"], 64);
  EXPECT_EQ(body["ignore_eos"], true);
  EXPECT_EQ(body["prompt"].size(), 1u);  // an empty prompt is refused everywhere
}

}  // namespace
}  // namespace llmd::bench
