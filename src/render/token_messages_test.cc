#include "render/token_messages.h"

#include "codec/protobuf.h"

#include <gtest/gtest.h>

namespace llmd::render {
namespace {

using codec::ProtoWriter;
template <class Write>
std::string message(Write write) {
  std::string out;
  ProtoWriter writer(out);
  write(writer);
  return out;
}

TEST(TokenMessages, AreBodiesOfCompletions) {
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

TEST(TokenMessages, AreBodiesOfChats) {
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

TEST(TokenMessages, AreRefusedWhenMalformed) {
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

TEST(TokenMessages, AreAnswers) {
  const Rendered prompts = std::vector<RenderedPrompt>{{.token_ids = {1, 300}, .media = {}}};
  const Rendered failed = fail(Code::kBadRequest, "why");
  const std::string ids = {1, '\xac', 2};
  EXPECT_EQ(write_answer(kTokenize, "", prompts), message([&](ProtoWriter& w) {
              w.bytes(1, ids);
              w.varint(2, 1);
            }));
  EXPECT_EQ(write_answer(kRenderCompletion, "id", prompts), message([&](ProtoWriter& w) {
              w.bytes(1, "id");
              w.bytes(2, ids);
              w.varint(3, 1);
            }));
  EXPECT_EQ(write_answer(kRenderChat, "id", failed), message([](ProtoWriter& w) {
              w.bytes(1, "id");
              w.varint(4, 0);
              w.bytes(5, "why");
            }));
  EXPECT_EQ(write_initialized({}), message([](ProtoWriter& w) { w.varint(1, 1); }));
}

/// The body that the side which answers makes of what the other one wrote.
std::string round_trip(std::string_view body, bool chat, size_t nth = 0) {
  const auto requests = write_requests(body, chat);
  if (!requests) return requests.error().message;
  const auto& [method, message] = requests->at(nth);
  const auto read = method == &kRenderChat ? read_chat
                    : method == &kTokenize ? read_tokenize
                                           : read_completion;
  const auto asked = read(message);
  return asked ? asked->model + " " + asked->body : asked.error().message;
}

TEST(TokenMessages, HoldCompletions) {
  EXPECT_EQ(round_trip(R"({"model":"m","prompt":"a\u00e9\n"})", false),
            R"(m {"prompt":"aé\n","add_special_tokens":true})");
  const auto list = R"({"prompt":["a","b"],"add_special_tokens":false,"model":"m"})";
  EXPECT_EQ(write_requests(list, false)->size(), 2u);
  EXPECT_EQ(round_trip(list, false, 1), R"(m {"prompt":"b","add_special_tokens":false})");
  for (const auto* wrong :
       {R"({"prompt":[1,2]})", R"({"prompt":[]})", R"({"prompt":["a",1]})", "{}"})
    EXPECT_EQ(round_trip(wrong, false), "'prompt' is neither a text nor a list of texts") << wrong;
  EXPECT_EQ(round_trip("[", false), "the request is no JSON object");
}

TEST(TokenMessages, HoldChats) {
  EXPECT_EQ(
      round_trip(R"({"messages":[{"role":"user","content":[{"type":"text","text":"a"},)"
                 R"({"type":"image_url","image_url":{"url":"u"}}]},{"role":"assistant",)"
                 R"("content":null,"tool_calls":[{"x":1.50}]},{"role":"user","content":""}],)"
                 R"("tools":[{"b":1,"a":2}],"temperature":1,"add_generation_prompt":false,)"
                 R"("continue_final_message":true,"chat_template":"t","model":"m",)"
                 R"("chat_template_kwargs":{"k":null}})",
                 true),
      R"(m {"messages":[{"role":"user","content":[{"type":"text","text":"a"},)"
      R"({"type":"image_url","image_url":{}}]},{"role":"assistant","tool_calls":[{"x":1.50}]},)"
      R"({"role":"user","content":""}],"tools":[{"b":1,"a":2}],)"
      R"("chat_template_kwargs":{"k":null},"chat_template":"t","add_generation_prompt":false,)"
      R"("continue_final_message":true})");
  EXPECT_EQ(round_trip(R"({"messages":[],"tools":null,"tool_choice":"none"})", true),
            R"( {"messages":[],"add_generation_prompt":true,"continue_final_message":false})");
  EXPECT_EQ(round_trip(R"({"messages":[{"content":[{"type":"input_audio"}]}]})", true),
            "content of type 'input_audio' has no place in a ChatMessage");
  EXPECT_EQ(round_trip("{}", true), "the chat has no list 'messages'");
  EXPECT_EQ(*read_initialize(write_initialize("m")), "m");
}

TEST(TokenMessages, AreReadAsAnswers) {
  const Rendered prompts =
      std::vector<RenderedPrompt>{{.token_ids = {0, 300, UINT32_MAX}, .media = {}}};
  for (const auto* method : {&kTokenize, &kRenderCompletion, &kRenderChat}) {
    EXPECT_EQ(read_answer(*method, write_answer(*method, "id", prompts))->token_ids,
              prompts->front().token_ids);
    const auto failed =
        read_answer(*method, write_answer(*method, "", fail(Code::kInternal, "why")));
    EXPECT_EQ(failed.error().message, "why");
  }
  EXPECT_TRUE(read_initialized(write_initialized({})));
  EXPECT_EQ(read_initialized(write_initialized(fail(Code::kNotFound, std::string(5000, 'x'))))
                .error()
                .message,
            std::string(1024, 'x'));
  EXPECT_EQ(read_initialized("").error().message, "the service gives no reason");
  const auto unpacked = message([](ProtoWriter& w) {
    w.varint(2, 7);
    w.varint(2, 8);
    w.varint(4, 1);
  });
  EXPECT_EQ(read_answer(kRenderChat, unpacked)->token_ids, (std::vector<uint32_t>{7, 8}));
}

TEST(TokenMessages, TellWhereMediaAre) {
  const auto entry = [](ProtoWriter& w, uint32_t map, std::string_view modality, auto items) {
    w.message(map, [&] {
      w.bytes(1, modality);
      w.message(2, items);
    });
  };
  const auto answer = message([&](ProtoWriter& w) {
    w.varint(4, 1);
    w.message(3, [&] {
      entry(w, 1, "image", [&] {
        w.bytes(1, "h1");
        w.bytes(1, "h2");
        w.bytes(1, "nowhere");
      });
      entry(w, 1, "smell", [&] { w.bytes(1, "h3"); });
      entry(w, 2, "image", [&] {
        w.message(1, [&] {
          w.varint(1, 9);
          w.varint(2, 4);
        });
        w.message(1, [&] { w.varint(2, 5); });
      });
    });
  });
  const auto prompt = read_answer(kRenderChat, answer);
  ASSERT_TRUE(prompt) << prompt.error().message;
  ASSERT_EQ(prompt->media.size(), 2u);
  EXPECT_EQ(prompt->media[0].hash, "h2");
  EXPECT_EQ(prompt->media[0].length, 5u);
  EXPECT_EQ(prompt->media[1].offset, 9u);
}

TEST(TokenMessages, AreNoAnswersWhenMalformed) {
  const auto wrong = [](auto write) {
    return read_answer(kRenderChat, message(write)).error().message;
  };
  const std::string malformed = "malformed answer of the tokenization service";
  EXPECT_EQ(wrong([](ProtoWriter& w) { w.bytes(2, "\xff"); }), malformed);
  EXPECT_EQ(wrong([](ProtoWriter& w) { w.varint(2, uint64_t{1} << 32); }), malformed);
  EXPECT_EQ(wrong([](ProtoWriter& w) { w.bytes(3, "\xff"); }), malformed);
  EXPECT_EQ(read_answer(kTokenize, "\xff").error().message, malformed);
  EXPECT_EQ(read_initialized("\xff").error().message, malformed);
}

}  // namespace
}  // namespace llmd::render
