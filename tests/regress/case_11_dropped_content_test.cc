#include "idle_fleet.h"

#include <gtest/gtest.h>

namespace llmd::regress {
namespace {

/// llm-d-router#1554, #1896, #2389, #781: what a request holds beside its texts was left out of its
/// prefix, so that different prompts looked alike.

conformance::Step asked(std::string op, const std::string& path, const std::string& body) {
  auto step = completion(std::move(op), "\"\"");
  step.path = path;
  step.body = body;
  return step;
}

/// How much of the second request's prefix is that of the first.
double shared(const std::string& path, const std::string& first, const std::string& second) {
  conformance::Picker picker(idle_fleet(2));
  auto train = asked("train", path, first);
  picker.run(train);
  return (picker.run(asked("probe", path, second)).scores.at("e0") - 4) / 3;
}

const std::string kLong(2048, 'a');
const std::string kUser = R"({"role":"user","content":")" + kLong + R"("})";

TEST(Case11, AToolChangesTheFirstBlock) {
  const auto body = [](const std::string& tools) {
    return R"({"model":"m",)" + tools + R"("messages":[)" + kUser + "]}";
  };
  const std::string tool = R"("tools":[{"type":"function","function":{"name":"f"}}],)";
  EXPECT_DOUBLE_EQ(shared("/v1/chat/completions", body(tool), body(tool)), 1);
  EXPECT_DOUBLE_EQ(shared("/v1/chat/completions", body(""), body(tool)), 0);
}

TEST(Case11, AnImageBeforeATextIsPartOfThePrefix) {
  const auto body = [](const std::string& url) {
    return R"({"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":")" +
           url + R"("}},{"type":"text","text":")" + kLong + R"("}]}]})";
  };
  const std::string path = "/v1/chat/completions";
  EXPECT_DOUBLE_EQ(shared(path, body("https://a/1.png"), body("https://a/1.png")), 1);
  EXPECT_DOUBLE_EQ(shared(path, body("https://a/1.png"), body("https://a/2.png")), 0);
}

TEST(Case11, ThinkingAndToolUseOfMessagesAreKept) {
  const auto body = [](const std::string& block) {
    return R"({"model":"m","max_tokens":1,"messages":[{"role":"assistant","content":[)" + block +
           R"(]},)" + kUser + "]}";
  };
  const std::string thinking = R"({"type":"thinking","thinking":"hm","signature":"s"})";
  const auto use = [](const std::string& input) {
    return R"({"type":"tool_use","id":"t","name":"f","input":)" + input + "}";
  };
  EXPECT_DOUBLE_EQ(shared("/v1/messages", body(thinking), body(thinking)), 1);
  EXPECT_DOUBLE_EQ(shared("/v1/messages", body(thinking), body(use("{}"))), 0);
  EXPECT_DOUBLE_EQ(shared("/v1/messages", body(use(R"({"x":1})")), body(use(R"({"x":2})"))), 0);
}

TEST(Case11, WhatNobodyKnowsReachesTheServer) {
  conformance::Picker picker(idle_fleet(1));
  const std::string body = R"({"model":"m","messages":[)" + kUser + R"(],"x":{"y":[1.50,null]}})";
  EXPECT_EQ(picker.run(asked("probe", "/v1/chat/completions", body)).sent, body);
}

}  // namespace
}  // namespace llmd::regress
