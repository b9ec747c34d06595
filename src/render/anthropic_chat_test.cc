#include "render/anthropic_chat.h"

#include "json_tree.h"

#include <gtest/gtest.h>

namespace llmd::render {
namespace {

/// The messages that come of these; of a whole chat when it has more.
std::string messages_of(std::string_view messages) {
  auto chat = chat_of_messages("{\"messages\":" + std::string(messages) + "}", "m");
  if (!chat) return chat.error().message;
  constexpr std::string_view kBefore = R"({"model":"m","messages":)";
  EXPECT_TRUE(chat->starts_with(kBefore)) << *chat;
  return chat->substr(kBefore.size(), chat->size() - kBefore.size() - 1);
}

/// The message of one that has this content.
std::string message_of(std::string_view content, std::string_view role = "user") {
  return messages_of(R"([{"role":")" + std::string(role) + R"(","content":)" +
                     std::string(content) + "}]");
}

TEST(AnthropicChat, KeepsTexts) {
  EXPECT_EQ(message_of(R"("h\u00e9 \"x\"\n")"), R"([{"role":"user","content":"hé \"x\"\n"}])");
  EXPECT_EQ(message_of(R"([{"type":"text","text":"hi"}])"), R"([{"role":"user","content":"hi"}])");
  EXPECT_EQ(
      message_of(R"([{"type":"text","text":"a"},{"type":"text","text":""},
                           {"text":"b","type":"text"}])"),
      R"([{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}])");
}

TEST(AnthropicChat, KeepsTheSystemTextWithoutBilling) {
  const auto chat = chat_of_messages(
      R"({"system":[{"type":"text","text":"x-anthropic-billing-header: 1"},
                    {"type":"text","text":"Be "},{"type":"text","text":"brief."}],
          "messages":[{"role":"system","content":"Always."},{"role":"user","content":"hi"}]})",
      "a\"b");
  EXPECT_EQ(chat, R"({"model":"a\"b","messages":[{"role":"system","content":"Be brief."},)"
                  R"({"role":"system","content":"Always."},{"role":"user","content":"hi"}]})");
}

TEST(AnthropicChat, KeepsImages) {
  EXPECT_EQ(
      message_of(R"([{"type":"image","source":{"type":"url","url":"https://x/y.png"}}])"),
      R"([{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://x/y.png"}}]}])");
  EXPECT_EQ(message_of(R"([{"type":"image","source":{"type":"base64","data":"AAAA"}}])"),
            R"([{"role":"user","content":[{"type":"image_url","image_url":)"
            R"({"url":"data:image/jpeg;base64,AAAA"}}]}])");
  EXPECT_EQ(message_of(R"([{"type":"text","text":"see"},{"type":"image",
                           "source":{"media_type":"image/png","data":"AAAA"}}])"),
            R"([{"role":"user","content":[{"type":"text","text":"see"},{"type":"image_url",)"
            R"("image_url":{"url":"data:image/png;base64,AAAA"}}]}])");
}

TEST(AnthropicChat, KeepsThinkingAndCallsOfTools) {
  EXPECT_EQ(
      message_of(R"([{"type":"thinking","thinking":"hm"},{"type":"redacted_thinking","data":"x"},
                           {"type":"text","text":"so"},
                           {"type":"tool_use","id":"t1","name":"f","input":{"b":1.50,"a":[1e2,"é"]}},
                           {"type":"tool_use","name":"g"}])",
                 "assistant"),
      R"([{"role":"assistant","content":"so","tool_calls":[{"id":"t1","type":"function",)"
      R"("function":{"name":"f","arguments":"{\"b\": 1.50, \"a\": [1e2, \"\\u00e9\"]}"}},)"
      R"({"id":"call_0000000000","type":"function","function":{"name":"g","arguments":"{}"}}],)"
      R"("reasoning":"hm"}])");
}

TEST(AnthropicChat, PutsResultsOfToolsBeforeTheUsersWords) {
  EXPECT_EQ(message_of(R"([{"type":"text","text":"and now?"},
                           {"type":"tool_result","tool_use_id":"t1","content":[
                             {"type":"text","text":"a"},{"type":"text","text":"b"},
                             {"type":"image","source":{"url":"u"}}]},
                           {"type":"tool_result","tool_use_id":"t2","content":"c"}])"),
            R"([{"role":"tool","tool_call_id":"t1","content":"a\nb"},)"
            R"({"role":"user","content":[{"type":"image_url","image_url":{"url":"u"}}]},)"
            R"({"role":"tool","tool_call_id":"t2","content":"c"},)"
            R"({"role":"user","content":"and now?"}])");
  EXPECT_EQ(message_of(R"([{"type":"tool_result","tool_use_id":"t","content":"c"}])"),
            R"([{"role":"tool","tool_call_id":"t","content":"c"}])")
      << "nothing is left of the user's message";
  EXPECT_EQ(message_of(R"([{"type":"tool_result","content":"c"}])", "assistant"),
            R"([{"role":"assistant","content":"Tool result: c"}])");
}

TEST(AnthropicChat, KeepsTools) {
  const auto chat = chat_of_messages(
      R"({"messages":[],"tools":[{"name":"f","description":"does","strict":true,
          "input_schema":{"z":1,"a":{"type":"object"}},"defer_loading":false,"cache_control":{}},
          {"name":"g","input_schema":null}]})",
      "m");
  EXPECT_EQ(chat,
            R"({"model":"m","messages":[],"tools":[{"type":"function","function":{"name":"f",)"
            R"("parameters":{"z":1,"a":{"type":"object"}},"description":"does","strict":true,)"
            R"("defer_loading":false}},{"type":"function","function":{"name":"g",)"
            R"("parameters":{"type":"object"}}}]})");
}

TEST(AnthropicChat, RefusesWhatIsNoObject) {
  EXPECT_FALSE(chat_of_messages("[]", "m"));
  EXPECT_FALSE(chat_of_messages("{\"messages\":[", "m"));
  EXPECT_FALSE(chat_of_messages(
      "{\"messages\":" + std::string(600, '[') + std::string(600, ']') + "}", "m"));
  std::string many = "{\"messages\":[1";
  for (size_t i = 0; i < kJsonTreeValuesMax; ++i) many += ",1";
  EXPECT_FALSE(chat_of_messages(many + "]}", "m"));
  EXPECT_EQ(messages_of(R"([1,null,{"role":"user","content":[2,{"type":"text"}]}])"),
            R"([{"role":""},{"role":""}])");
}

/// As Python 3 prints json.dumps(json.loads(text)).
TEST(JsonTree, WritesAsPythonDoes) {
  const auto python = [](std::string_view text) { return parse_json_tree(text)->python(); };
  EXPECT_EQ(python(R"({"b" :[1,  -2.5, true,null],"a":{}, "c":[]})"),
            R"({"b": [1, -2.5, true, null], "a": {}, "c": []})");
  EXPECT_EQ(python(R"("\"\\\/\b\f\n\r\t\u0001\u007f ~")"), R"("\"\\/\b\f\n\r\t\u0001\u007f ~")");
  EXPECT_EQ(python("\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\""), R"("\u00e9\u20ac\ud83d\ude00")");
  EXPECT_EQ(python(R"("\ud83d\ude00")"), R"("\ud83d\ude00")");
  EXPECT_EQ(python("[18446744073709551616, 1E5]"), "[18446744073709551616, 1E5]");
}

}  // namespace
}  // namespace llmd::render
