#include "api.h"

#include "admin.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <map>

namespace llmd::sim {
namespace {

using namespace std::chrono_literals;
using nlohmann::json;

std::string read_error(std::string_view body, bool chat) {
  json parsed;
  if (auto error = parse_object(body, parsed)) return error->message;
  GenerationRequest request;
  const auto error = read_generation(parsed, chat, request);
  return error ? error->message : "";
}

GenerationRequest read(std::string_view body, bool chat) {
  GenerationRequest request;
  const auto error = read_generation(json::parse(body), chat, request);
  EXPECT_FALSE(error) << error->message;
  return request;
}

TEST(Api, RefusesBadFields) {
  const std::string chat = R"("messages":[{"role":"user","content":"x"}])";
  const std::tuple<std::string, bool, std::string> cases[] = {
      {"{", true, "Failed to read and parse request body, it is not valid JSON"},
      {"[]", true, "Failed to read and parse request body, it is not a JSON object"},
      {R"({"messages":[]})", true, "messages must be a non-empty array"},
      {"{" + chat + R"(,"max_tokens":0})", true,
       "Max completion tokens and max tokens should be positive"},
      {"{" + chat + R"(,"max_tokens":5,"max_completion_tokens":-1})", true,
       "Max completion tokens and max tokens should be positive"},
      {"{" + chat + R"(,"n":0})", true, "n must be at least 1"},
      {"{" + chat + R"(,"ignore_eos":true})", true,
       "Ignore_eos is true but max_completion_tokens (or max_tokens) is not set"},
      {"{" + chat + R"(,"stream":"yes"})", true, "stream must be a boolean"},
      {"{" + chat + R"(,"tool_choice":"required"})", true, "tool calls are not simulated"},
      {"{" + chat + R"(,"stream_options":{"include_usage":true}})", true,
       "Stream options can only be defined when `stream=True`. (parameter=stream_options)"},
      {R"({"prompt":"x","stream":true,"kv_transfer_params":{"do_remote_decode":true}})", false,
       "Prefill does not support streaming"},
      {R"({"prompt":[]})", false, "prompt array must contain at least one prompt"},
      {R"({"prompt":""})", false, "prompt must not contain an empty string"},
      {R"({"prompt":["a",""]})", false, "prompt must not contain an empty string"},
      {R"({"prompt":[[1],[]]})", false, "prompt must not contain an empty token-id array"},
      {R"({"prompt":[1,-2]})", false, "prompt token ids must be unsigned 32-bit integers"},
      {R"({})", false, "prompt must be a string, an array of strings or token ids"},
  };
  for (const auto& [body, is_chat, message] : cases)
    EXPECT_EQ(read_error(body, is_chat), message) << body;
}

TEST(Api, ReadsEveryFormOfPrompt) {
  EXPECT_EQ(read(R"({"prompt":"Hello world"})", false).prompts[0].ids,
            (std::vector<uint32_t>{2871118705, 933488787}));
  EXPECT_EQ(read(R"({"prompt":["a b","c"]})", false).prompts.size(), 2u);
  const auto ids = read(R"({"prompt":[1,2,3]})", false);
  EXPECT_EQ(ids.prompts[0].ids, (std::vector<uint32_t>{1, 2, 3}));
  EXPECT_EQ(ids.prompts[0].echo, "1,2,3");
  EXPECT_EQ(read(R"({"prompt":[[1],[2,3]]})", false).prompts[1].ids.size(), 2u);
}

TEST(Api, FlattensMessages) {
  const auto request = read(R"({"messages":[
      {"role":"system","content":"Be brief."},
      {"role":"assistant","content":null,"tool_calls":[{"function":{"name":"f","arguments":"{}"}}]},
      {"role":"tool","tool_call_id":"t1","content":"ok"},
      {"role":"user","content":[{"type":"text","text":"see"},
        {"type":"image_url","image_url":{"url":"http://x/a.jpg"}}]}]})",
                            true);
  EXPECT_EQ(request.prompts[0].echo, "see\nimage: http://x/a.jpg");
  json messages = json::parse(R"([{"role":"tool","tool_call_id":"t1","content":"ok"},
      {"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{}"}}]}])");
  EXPECT_EQ(chat_prompt(messages), "### tool(t1): ok\n### assistant: [f({})]\n");
}

TEST(Api, PrefersMaxCompletionTokensInChat) {
  const std::string chat = R"({"messages":[{"role":"user","content":"x"}],)";
  EXPECT_EQ(read(chat + R"("max_tokens":5,"max_completion_tokens":7})", true).max_tokens, 7u);
  EXPECT_EQ(read(chat + R"("max_tokens":5,"max_completion_tokens":null})", true).max_tokens, 5u);
}

TEST(Api, StatesTheContextLimit) {
  auto request =
      read(R"({"messages":[{"role":"user","content":"Hello world"}],"max_tokens":5})", true);
  EXPECT_FALSE(check_context(request, 12));
  EXPECT_EQ(check_context(request, 10)->message,
            "This model's maximum context length is 10 tokens. However, you requested 12 tokens "
            "(7 in the messages, 5 in the completion). Please reduce the length of the messages "
            "or completion");
}

TEST(Api, RendersErrors) {
  EXPECT_EQ(error_body({404, "The model `zz` does not exist."}),
            R"({"error":{"message":"The model `zz` does not exist.","type":"NotFoundError",)"
            R"("param":null,"code":404}})");
  EXPECT_EQ(error_body({418, "x", "y"}),
            R"({"error":{"message":"x","type":"APIConnectionError","param":"y","code":418}})");
  EXPECT_EQ(requested_error("503").status, 503);
  EXPECT_EQ(requested_error("503").message,
            "Simulated error triggered by X-Return-Error header (code 503)");
  EXPECT_EQ(requested_error("abc").message,
            "Invalid X-Return-Error header value \"abc\": must be an integer");
  EXPECT_EQ(requested_error("7").status, 400);
}

TEST(Api, InjectsFailuresAtTheRate) {
  ServerConfig config;
  config.model = "m";
  Draws draws(1, 1);
  EXPECT_FALSE(inject_failure(config, draws));
  config.failure_injection_rate = 25;
  std::map<int, int> by_status;
  for (int i = 0; i < 10000; ++i)
    if (const auto error = inject_failure(config, draws)) ++by_status[error->status];
  int all = 0;
  for (const auto& [status, n] : by_status) all += n;
  EXPECT_NEAR(all, 2500, 200);
  EXPECT_EQ(by_status.size(), 5u);  // two types share 400
  config.failure_types = {"rate_limit"};
  config.failure_injection_rate = 100;
  EXPECT_EQ(inject_failure(config, draws)->status, 429);
}

TEST(StreamEvents, EscapeWhatTheyCarry) {
  StreamEvents events;
  events.begin({true, "chatcmpl-\"1", "m", 5});
  const std::string event(events.token(2, "a\"\n"));
  EXPECT_EQ(event.substr(event.size() - 2), "\n\n");
  const json parsed = json::parse(event.substr(6));
  EXPECT_EQ(parsed["id"], "chatcmpl-\"1");
  EXPECT_EQ(parsed["choices"][0]["index"], 2);
  EXPECT_EQ(parsed["choices"][0]["delta"]["content"], "a\"\n");
  EXPECT_TRUE(parsed["usage"].is_null());
}

TEST(Admin, ChangesOnlyWhatMayChangeAndAllOrNothing) {
  ServerConfig c;
  c.model = "m";
  EXPECT_EQ(update_config(c, R"({"port":9})")->message, "field 'port' is not admin-configurable");
  EXPECT_EQ(update_config(c, R"({"time-to-first-token":"100ms",)"
                             R"("time-to-first-token-std-dev":"40ms"})")
                ->status,
            400);
  EXPECT_EQ(c.latency.time_to_first_token, 0ms);
  EXPECT_FALSE(update_config(c, R"({"inter-token-latency":5000000,"failure-injection-rate":3,)"
                                R"("failure-types":["server_error"],"prefill-overhead":null})"));
  EXPECT_EQ(c.latency.inter_token_latency, 5ms);
  EXPECT_EQ(c.failure_injection_rate, 3u);
  EXPECT_FALSE(update_config(c, R"({"failure-types":[]})"));
  EXPECT_TRUE(c.failure_types.empty());
  EXPECT_TRUE(update_config(c, R"({"failure-injection-rate":101})"));
  EXPECT_TRUE(update_config(c, "x"));
}

TEST(Admin, ShowsTheWholeConfiguration) {
  ServerConfig c;
  c.model = "m";
  c.latency.inter_token_latency = 12ms;
  const json shown = json::parse(show_config(c, "127.0.0.1"));
  EXPECT_EQ(shown["inter-token-latency"], "12ms");
  EXPECT_EQ(shown["max-num-seqs"], 5);
  EXPECT_EQ(shown["model"], "m");
  EXPECT_EQ(shown["enable-kvcache"], false);
  EXPECT_EQ(shown["lora-modules"], json::array());
}

}  // namespace
}  // namespace llmd::sim
