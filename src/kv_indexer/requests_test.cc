#include "requests.h"

#include "codec/protobuf.h"
#include "plugin/state_store.h"
#include "request/parsers.h"

#include <gtest/gtest.h>

namespace llmd::kv_indexer {
namespace {

using Texts = std::vector<std::string>;

class RequestsTest : public ::testing::Test {
 protected:
  Result<ScoreRequest> read(std::string_view body, BodyKind kind = BodyKind::kEither) {
    return read_body(body, kind, dynamic_cast<const request::Parser&>(*parser_.plugin), {});
  }
  std::string error(std::string_view body, BodyKind kind = BodyKind::kEither) {
    const auto request = read(body, kind);
    return request ? "" : request.error().message;
  }

  ManualClock clock_;
  plugin::StateStore state_;
  metric::Registry metrics_{1};
  const plugin::Made parser_ =
      *request::openai_parser().make({"openai-parser", state_, metrics_, clock_}, nullptr);
};

TEST_F(RequestsTest, HaveTokenIdsOrTexts) {
  const auto ids = read(R"({"model":"m","prompt":[1,2],"cache_salt":"s"})");
  ASSERT_TRUE(ids) << ids.error().message;
  EXPECT_FALSE(ids->text);
  EXPECT_EQ(ids->tokens[0].token_ids, (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(ids->question.model, "m");
  EXPECT_EQ(ids->question.cache_salt, "s");
  EXPECT_EQ(read(R"({"model":"m","prompt":[[1],[2]]})")->tokens.size(), 2u);
  const auto text = read(R"({"model":"m","prompt":"a"})");
  EXPECT_FALSE(text->text->chat);
  EXPECT_EQ(text->text->body, R"({"model":"m","prompt":"a"})");
  const auto chat = read(R"({"model":"m","messages":[{"role":"user","content":"a"}]})");
  EXPECT_TRUE(chat->text->chat);
}

TEST_F(RequestsTest, NamePods) {
  EXPECT_EQ(read(R"({"model":"m","prompt":[1],"pods":["a:1","\u0062:2"]})")->question.pods,
            (Texts{"a:1", "b:2"}));
  EXPECT_EQ(read(R"({"model":"m","prompt":[1],"pods":[]})")->question.pods, Texts());
}

TEST_F(RequestsTest, AreRefusedWithTheReason) {
  EXPECT_EQ(error(R"({"prompt":[1]})"), "the request names no model");
  EXPECT_EQ(error(R"({"model":"m","prompt":[1],"pods":"a"})"), "'pods' is no list of names");
  EXPECT_EQ(error(R"({"model":"m","prompt":[1],"pods":[1]})"), "'pods' is no list of names");
  EXPECT_TRUE(error(R"({"model":"m"})").contains("must have prompt field"));
  EXPECT_TRUE(error(R"({"model":"m","prompt":"a"})", BodyKind::kChat).contains("messages"));
  EXPECT_FALSE(error(R"({"model":"m","prompt":)").empty());
  std::string body = R"({"model":"m","prompt":[[1])";
  for (size_t i = 0; i < kPromptsMax; ++i) body += ",[1]";
  EXPECT_EQ(error(body + "]}"), "'prompt' has 1025 entries, at most 1024 are possible");
  body = R"({"model":"m","prompt":[1],"pods":[""])";
  for (size_t i = 0; i < kPodsMax; ++i) body.insert(body.size() - 1, R"(,"")");
  EXPECT_EQ(error(body + "}"), "'pods' has 4097 entries, at most 4096 are possible");
}

TEST_F(RequestsTest, ComeAsMessages) {
  std::string message;
  codec::ProtoWriter writer(message);
  writer.bytes(1, "a\"b");
  writer.bytes(2, "m");
  writer.bytes(3, "a:1");
  writer.bytes(3, "b:2");
  const auto request = read_message(message, {});
  ASSERT_TRUE(request) << request.error().message;
  EXPECT_EQ(request->text->body, R"({"prompt":"a\"b"})");
  EXPECT_EQ(request->question.model, "m");
  EXPECT_EQ(request->question.pods, (Texts{"a:1", "b:2"}));
  EXPECT_EQ(read_message("", {}).error().message, "the request names no model");
  EXPECT_EQ(read_message("\xff", {}).error().message, "malformed GetPodScoresRequest");
}

TEST(Scores, AreMessagesAndJson) {
  const Scores scores{.block_tokens = 16, .blocks = 4, .pods = {{"a:1", 1.5, 2, {{"gpu", 2}}}}};
  std::string message;
  codec::ProtoWriter writer(message);
  writer.message(1, [&] {
    writer.bytes(1, "a:1");
    writer.real(2, 1.5);
  });
  EXPECT_EQ(write_message(scores), message);
  EXPECT_EQ(pod_scores_json(scores), R"({"a:1":1.5})");
  EXPECT_EQ(pod_scores_json({}), "{}");
}

}  // namespace
}  // namespace llmd::kv_indexer
