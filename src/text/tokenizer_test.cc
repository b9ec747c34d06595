#include "text/tokenizer.h"

#include "text/testing/tiny_model.h"

#include <gtest/gtest.h>

namespace llmd::text {
namespace {

using testing::TinyModel;

class TokenizerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!kAvailable) GTEST_SKIP() << "built without a Rust toolchain";
  }
  std::unique_ptr<Tokenizer> open(size_t cache_bytes = 1 << 20) {
    auto opened = Tokenizer::open(model.folder(), cache_bytes, Metrics::of(registry));
    EXPECT_TRUE(opened) << opened.error().message;
    return std::move(*opened);
  }
  std::string error(const std::string& path) {
    const auto opened = Tokenizer::open(path, 1 << 20, Metrics::of(registry));
    return opened ? "" : opened.error().message;
  }
  /// Bytes of prompts by where their tokens came from.
  std::string bytes_from(std::string_view source) {
    const std::string page = registry.render();
    const auto series = "llmd_tokenizer_bytes_total{source=\"" + std::string(source) + "\"} ";
    const size_t at = page.find(series) + series.size();
    return page.substr(at, page.find('\n', at) - at);
  }

  TinyModel model;
  metric::Registry registry{1};
};

TEST_F(TokenizerTest, HasTheTokensOfAText) {
  const auto tokenizer = open();
  EXPECT_EQ(tokenizer->engine(), "fastokens");
  EXPECT_EQ(*tokenizer->encode("a<|im_end|>", false), (Tokens{'a', TinyModel::kEnd}));
  EXPECT_EQ(*tokenizer->encode("a", true), (Tokens{TinyModel::kBegin, 'a'}));
  EXPECT_EQ(*tokenizer->encode("", true), Tokens{TinyModel::kBegin});
  EXPECT_EQ(tokenizer->encode("\xff", false).error().message, "the text is not UTF-8");
}

TEST_F(TokenizerTest, HasTheTokensOfRequests) {
  const auto tokenizer = open();
  const auto chat = tokenizer->prompts(R"({"messages":[{"role":"u","content":"x"}]})", true);
  ASSERT_TRUE(chat) << chat.error().message;
  EXPECT_EQ(*chat, std::vector<Tokens>{*tokenizer->encode(
                       "<|im_start|>u\nx<|im_end|>\n<|im_start|>assistant\n", false)});
  const auto texts = tokenizer->prompts(R"({"prompt":["a","b"]})", false);
  ASSERT_TRUE(texts) << texts.error().message;
  EXPECT_EQ(*texts, (std::vector<Tokens>{{TinyModel::kBegin, 'a'}, {TinyModel::kBegin, 'b'}}));
  EXPECT_EQ(*tokenizer->render_chat(
                R"({"messages":[{"role":"u","content":"x"}],"add_generation_prompt":false})"),
            "<|im_start|>u\nx<|im_end|>\n");
  EXPECT_EQ(tokenizer->prompts("{}", false).error().code, Code::kBadRequest);
}

TEST_F(TokenizerTest, EncodesOnlyTheNewPartOfAConversation) {
  const auto tokenizer = open();
  const std::string part = "<|im_start|>user\n" + std::string(800, 'x') + "<|im_end|>";
  std::string text;
  Tokens all;
  const Tokens part_tokens = *tokenizer->encode(part, false);
  for (int turn = 0; turn < 50; ++turn) {
    text += part;
    all.insert(all.end(), part_tokens.begin(), part_tokens.end());
    const auto before = std::stoul(bytes_from("engine"));
    EXPECT_EQ(*tokenizer->encode(text, false), all);
    // The segment that the turn before ended within, and the turn.
    EXPECT_LE(std::stoul(bytes_from("engine")) - before,
              Tokenizer::kSegmentBytes + 2 * part.size());
  }
}

TEST_F(TokenizerTest, KeepsWithinItsCache) {
  const auto tokenizer = open(10000);
  for (int i = 0; i < 100; ++i)
    ASSERT_TRUE(tokenizer->encode(std::to_string(i) + std::string(1000, 'x'), false));
  const std::string page = registry.render();
  EXPECT_TRUE(page.contains("llmd_tokenizer_cache_evictions_total 9")) << page;
}

TEST_F(TokenizerTest, OpensAFolderOrAFile) {
  EXPECT_EQ(error(model.folder() + "/tokenizer.json"), "");
  model.write("chat_template.jinja", "{% if %}");
  EXPECT_TRUE(error(model.folder()).starts_with(model.folder() + ": ")) << error(model.folder());
  model.write("tokenizer.json", "{");
  EXPECT_TRUE(error(model.folder()).contains("tokenizer.json: EOF"));
  EXPECT_TRUE(error("/nowhere").starts_with("/nowhere")) << error("/nowhere");
}

TEST(TokenizerOfABuildWithout, SaysSo) {
  if (kAvailable) GTEST_SKIP() << "built with a Rust toolchain";
  const TinyModel model;
  metric::Registry registry{1};
  const auto opened = Tokenizer::open(model.folder(), 1, Metrics::of(registry));
  ASSERT_FALSE(opened);
  EXPECT_TRUE(opened.error().message.ends_with(
      "this program was built without a Rust toolchain and has no local tokenizers"));
}

}  // namespace
}  // namespace llmd::text
