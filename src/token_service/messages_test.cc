#include "messages.h"

#include "codec/protobuf.h"

#include <gtest/gtest.h>

namespace llmd::token_service {
namespace {

using codec::ProtoWriter;
using Prompts = Result<std::vector<render::RenderedPrompt>>;

template <class Write>
std::string message(Write write) {
  std::string out;
  ProtoWriter writer(out);
  write(writer);
  return out;
}

TEST(Messages, AreBodiesOfCompletions) {
  const auto tokenize = read_tokenize(message([](ProtoWriter& w) {
    w.bytes(1, "a\"\n");
    w.bytes(2, "m");
    w.varint(3, 1);
  }));
  ASSERT_TRUE(tokenize);
  EXPECT_EQ(tokenize->model, "m");
  EXPECT_FALSE(tokenize->chat);
  EXPECT_EQ(tokenize->body, R"({"prompt":"a\"\n","add_special_tokens":true})");
  EXPECT_EQ(read_tokenize("")->body, R"({"prompt":"","add_special_tokens":false})");
  const auto completion = read_completion(message([](ProtoWriter& w) {
    w.bytes(1, "m");
    w.bytes(2, "x");
  }));
  EXPECT_EQ(completion->body, R"({"prompt":"x","add_special_tokens":true})");
}

TEST(Messages, AreBodiesOfChats) {
  const auto chat = read_chat(message([](ProtoWriter& w) {
    w.bytes(1, "m");
    w.message(2, [&] {
      w.bytes(1, "user");
      w.message(3, [&] {
        w.bytes(1, "text");
        w.bytes(2, "a");
      });
      w.message(3, [&] {
        w.bytes(1, "image_url");
        w.message(3, [&] { w.bytes(1, "http://x"); });
      });
    });
    w.message(2, [&] {
      w.bytes(1, "assistant");
      w.bytes(2, "b");
      w.bytes(4, "[1]");
    });
    w.message(2, [&] { w.bytes(1, "tool"); });
    w.bytes(3, "[]");
    w.varint(5, 0);
    w.varint(6, 1);
    w.bytes(7, "{}");
  }));
  ASSERT_TRUE(chat) << chat.error().message;
  EXPECT_TRUE(chat->chat);
  EXPECT_EQ(chat->body, R"({"messages":[{"role":"user","content":[{"type":"text","text":"a"},)"
                        R"({"type":"image_url","image_url":{}}]},)"
                        R"({"role":"assistant","content":"b","tool_calls":[1]},{"role":"tool"}],)"
                        R"("tools":[],"chat_template_kwargs":{},"add_generation_prompt":false,)"
                        R"("continue_final_message":true})");
  EXPECT_EQ(read_chat("")->body,
            R"({"messages":[],"add_generation_prompt":true,"continue_final_message":false})");
}

TEST(Messages, AreRefusedWhenMalformed) {
  EXPECT_EQ(read_tokenize("\xff").error().message, "malformed TokenizeRequest");
  EXPECT_EQ(read_completion("\xff").error().message, "malformed RenderCompletionRequest");
  EXPECT_EQ(read_initialize("\xff").error().message, "malformed InitializeTokenizerRequest");
  EXPECT_EQ(read_chat("\xff").error().message, "malformed RenderChatCompletionRequest");
  const auto error = [](uint32_t field, std::string_view value) {
    return read_chat(message([&](ProtoWriter& w) { w.bytes(field, value); })).error().message;
  };
  EXPECT_EQ(error(2, "\xff"), "malformed ChatMessage");
  EXPECT_EQ(error(3, "], \"x\": ["), "malformed tools_json");
  EXPECT_EQ(error(7, "{"), "malformed chat_template_kwargs");
  EXPECT_EQ(error(2, message([](ProtoWriter& w) { w.bytes(4, "["); })), "malformed ChatMessage");
}

TEST(Messages, AreAnswers) {
  const Prompts prompts = std::vector<render::RenderedPrompt>{{.token_ids = {1, 300}, .media = {}}};
  const Prompts failed = fail(Code::kBadRequest, "why");
  const std::string ids = {1, '\xac', 2};
  EXPECT_EQ(tokenize_answer("", prompts), message([&](ProtoWriter& w) {
              w.bytes(1, ids);
              w.varint(2, 1);
            }));
  EXPECT_EQ(completion_answer("id", prompts), message([&](ProtoWriter& w) {
              w.bytes(1, "id");
              w.bytes(2, ids);
              w.varint(3, 1);
            }));
  EXPECT_EQ(chat_answer("id", failed), message([](ProtoWriter& w) {
              w.bytes(1, "id");
              w.varint(4, 0);
              w.bytes(5, "why");
            }));
  EXPECT_EQ(initialize_answer({}), message([](ProtoWriter& w) { w.varint(1, 1); }));
}

}  // namespace
}  // namespace llmd::token_service
