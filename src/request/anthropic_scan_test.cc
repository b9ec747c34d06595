#include "anthropic_scan.h"

#include "media.h"
#include "scan_testing.h"

#include <xxhash.h>

namespace llmd::request {
namespace {

using testing::Parsed;

Parsed parse(std::string_view body) {
  return {scan_messages, body};
}

std::string tokens(uint32_t token, uint32_t count) {
  std::string out;
  for (uint32_t i = 0; i < count; ++i) out.append(reinterpret_cast<const char*>(&token), 4);
  return out;
}

TEST(MessageScan, ReadsCommonFields) {
  const Parsed p = parse(
      R"({"model":"m","max_tokens":5,"stream":true,"cache_salt":"s","messages":[{"role":"user","content":"Hi"}]})");
  ASSERT_TRUE(p.good()) << p.error();
  EXPECT_EQ(p->api, Api::kMessages);
  EXPECT_EQ(p->model, "m");
  EXPECT_TRUE(p->stream);
  EXPECT_EQ(p->max_output_tokens, 5);
  EXPECT_EQ(p->cache_salt, "s");
  EXPECT_TRUE(p->rewritable);
  EXPECT_EQ(p.text(), "userHi");
}

TEST(MessageScan, PutsToolsAndSystemFirst) {
  const Parsed p = parse(
      R"({"messages":[{"content":[{"type":"text","text":"a\n"},{"text":"b","type":"text"}],"role":"user"}],)"
      R"("system":[{"type":"text","text":"x-anthropic-billing-header: 7"},{"type":"text","text":"Be brief."}],)"
      R"("tools":[{"description":"","input_schema": {"b": "<1>", "a": [1, 2.0]},"name":"f\u0026","strict":null},)"
      R"({"name":"g","defer_loading":true,"description":"d"}]})");
  ASSERT_TRUE(p.good()) << p.error();
  EXPECT_EQ(p.text(), R"([{"name":"f\u0026","input_schema":{"b":"\u003c1\u003e","a":[1,2.0]}},)"
                      R"({"name":"g","description":"d","defer_loading":true}])"
                      "Be brief.usera\nb");
}

TEST(MessageScan, KeepsAWholeSystemText) {
  const Parsed p = parse(
      R"({"system":"x-anthropic-billing-header","messages":[{"role":"user","content":null}]})");
  EXPECT_EQ(p.text(), "x-anthropic-billing-headeruser");
}

TEST(MessageScan, ReadsThinkingAndTools) {
  const Parsed p = parse(
      R"({"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"hm"},)"
      R"({"type":"tool_use","name":"f","id":"t1","input":{"b": 1,"a":2}},{"type":"new","text":"no"}]},)"
      R"({"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"ok"},)"
      R"({"type":"tool_result","content":[{"type":"text","text":"x"},{"type":"image","source":)"
      R"({"type":"base64","data":"QUJD"}},{"type":"text","text":"y"}]}]}]})");
  ASSERT_TRUE(p.good()) << p.error();
  const std::string image = "data:image/jpeg;base64,QUJD";
  std::string expected = R"(assistanthmt1f{"b": 1,"a":2}userokx)"
                         "\ny";
  expected.resize((expected.size() + 3) / 4 * 4);
  expected += tokens(static_cast<uint32_t>(XXH64(image.data(), image.size(), 0)), 225);
  EXPECT_EQ(p.text(), expected);
}

TEST(MessageScan, HashesImagesByAddressOrData) {
  // The header of a 64 x 32 GIF.
  const Parsed p = parse(
      R"({"messages":[{"role":"user","content":[{"type":"image","source":{"url":"https://example.com/a.png"}},)"
      R"({"type":"image","source":{"data":"R0lGODlhQAAgAAAAAA==","media_type":"image/gif"}},)"
      R"({"type":"image","source":{}},{"type":"image"}]}]})");
  ASSERT_TRUE(p.good()) << p.error();
  EXPECT_EQ(p.text(), "user" + tokens(static_cast<uint32_t>(0x9f4fdeae6ee1cebaull), 225) +
                          tokens(static_cast<uint32_t>(XXH64("R0lGODlhQAAgAAAAAA==", 20, 0)), 2));
}

TEST(MessageScan, TakesTheLastOfRepeatedKeys) {
  const Parsed p = parse(
      R"({"messages":[{"role":"a","content":"1"}],"messages":[{"role":"b","role":"user","content":"2",)"
      R"("content":[{"type":"text","text":"3","text":"4"}]}],"system":"5","system":"6"})");
  ASSERT_TRUE(p.good()) << p.error();
  EXPECT_EQ(p.text(), "6user4");
}

TEST(MessageScan, SaysWhatIsWrong) {
  constexpr std::string_view kContent =
      "error parsing messages request: anthropic content: must be a string or an array of content "
      "blocks";
  const struct {
    std::string_view body, error;
  } kCases[] = {
      {"{}", "invalid messages request: must have at least one message"},
      {R"({"messages":[]})", "invalid messages request: must have at least one message"},
      {R"({"messages":null})", "invalid messages request: must have at least one message"},
      {R"({"messages")", "error unmarshaling request body: unexpected end of JSON input"},
      {R"({"messages":"x"})",
       "error parsing messages request: json: cannot unmarshal string into Go struct field "
       "MessagesRequest.messages of type array"},
      {R"({"messages":[{"role":3}]})",
       "error parsing messages request: json: cannot unmarshal number into Go struct field "
       "MessagesRequest.messages.role of type string"},
      {R"({"messages":[{"content":3}]})", kContent},
      {R"({"messages":[{"content":["x"]}]})", kContent},
      {R"({"messages":[{"content":[{"type":"text","text":3}]}]})", kContent},
      {R"({"messages":[{"content":[{"type":"tool_result","content":[{"text":[]}]}]}]})", kContent},
      {R"({"system":{},"messages":[{"content":"x"}]})", kContent},
  };
  for (const auto& c : kCases) EXPECT_EQ(parse(c.body).error(), c.error) << c.body;
  EXPECT_NE(parse(R"({"messages":[{}],"cache_salt":1})").error(), "");
}

}  // namespace
}  // namespace llmd::request
