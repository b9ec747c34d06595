// Tokenizers in use, from build/tokenizers (scripts/setup.sh test): the tokens of parts are those
// of the whole, wherever the text is cut.
#include "segments.h"

#include "base/rng.h"
#include "text/tokenizer.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>

namespace llmd::text {
namespace {

const std::string kFolder = std::string(LLMD_SOURCE_DIR) + "/build/tokenizers/";

constexpr std::array kModels = {"qwen3",  "llama3_1", "deepseek_v3", "gpt4o",
                                "llama2", "gemma3",   "claude"};

/// What texts are made of: words, code, scripts, white space of all kinds, marks that combine, long
/// runs, and the markers of all models.
constexpr std::string_view kPieces[] = {"\n",
                                        "\n\n",
                                        "\r\n",
                                        " ",
                                        "  ",
                                        "    ",
                                        "\t",
                                        "\u00a0",
                                        "\u3000",
                                        "\u2028",
                                        ".",
                                        ",",
                                        "...",
                                        "!?",
                                        "'s",
                                        "'LL",
                                        "the",
                                        " The",
                                        "hello",
                                        " world",
                                        "naïve",
                                        "e\u0301",
                                        "\u0301",
                                        "Ångström",
                                        "ﬁ",
                                        "ᾳ",
                                        "１２",
                                        "1",
                                        "12",
                                        "1234567",
                                        " 3.14",
                                        "x_1",
                                        "Foo",
                                        "fooBar",
                                        "HTTP",
                                        "漢字",
                                        "かな",
                                        "カナ",
                                        "한국어",
                                        "עברית",
                                        "العربية",
                                        "हिन्दी",
                                        "ไทย",
                                        "русский",
                                        "😀",
                                        "👩‍👩‍👧",
                                        "🇩🇪",
                                        "✈️",
                                        "{",
                                        "}",
                                        "();",
                                        "//",
                                        "/*",
                                        "*/",
                                        "<div>",
                                        "</",
                                        "&amp;",
                                        "=>",
                                        "==",
                                        "#include <x>",
                                        "\\n",
                                        "def f(x):\n    return x\n",
                                        "if (a) {\n  b();\n}\n",
                                        "| a | b |\n",
                                        "- item\n",
                                        "> quote\n",
                                        "```\n",
                                        "$x^2$",
                                        "<|im_start|>",
                                        "<|im_end|>",
                                        "<|eot_id|>",
                                        "<|start_header_id|>",
                                        "<s>",
                                        "</s>",
                                        "<bos>",
                                        "<start_of_turn>",
                                        "<end_of_turn>",
                                        "<｜User｜>",
                                        "<｜Assistant｜>",
                                        "<｜end▁of▁sentence｜>",
                                        "<|endoftext|>",
                                        "<think>",
                                        "<EOT>",
                                        "<META>",
                                        "</think>",
                                        "<tool_call>",
                                        "<|",
                                        "|>",
                                        "▁",
                                        "▁a",
                                        "\u200d",
                                        "\ufeff",
                                        "\ufffd",
                                        "A",
                                        "z",
                                        "user\n",
                                        "assistant\n",
                                        "\nA",
                                        ";\nB",
                                        " \nC"};

class RealModel : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (!kAvailable) GTEST_SKIP() << "built without a Rust toolchain";
    auto opened = Model::open(kFolder + GetParam());
    ASSERT_TRUE(opened) << opened.error().message << "; scripts/setup.sh test fetches it";
    model = std::move(*opened);
  }

  std::string text_of(size_t pieces) {
    std::string text;
    for (size_t i = 0; i < pieces; ++i) {
      const auto piece = kPieces[random() % std::size(kPieces)];
      const size_t times = random() % 40 == 0 ? random() % 300 : 1;
      for (size_t n = 0; n < times; ++n) text += piece;
    }
    return text;
  }

  Tokens whole(std::string_view text) {
    Tokens tokens;
    EXPECT_TRUE(model->encode(text, tokens));
    return tokens;
  }

  std::unique_ptr<Model> model;
  const uint64_t seed = random_seed();
  std::mt19937_64 random{seed};
};

// One test, since opening a model takes most of its time.
TEST_P(RealModel, HasTheTokensOfTheWholeInPartsAndInTurns) {
  size_t cuts = 0;
  for (int i = 0; i < 800; ++i) {
    const std::string text = text_of(random() % 60);
    Tokens parts;
    size_t from = 0;
    for (const size_t at : model->cuts(text, 1 + random() % 8)) {
      ASSERT_TRUE(model->encode(std::string_view(text).substr(from, at - from), parts));
      from = at;
      ++cuts;
    }
    ASSERT_TRUE(model->encode(std::string_view(text).substr(from), parts));
    ASSERT_EQ(parts, whole(text)) << "seed " << seed << " text " << text;
  }
  EXPECT_GT(cuts, 500u);

  metric::Registry registry{1};
  Segments segments(*model, 1 << 20, Metrics::of(registry));
  for (int conversation = 0; conversation < 4; ++conversation) {
    std::string text;
    for (int turn = 0; turn < 8; ++turn) {
      text += text_of(200);
      Tokens tokens;
      ASSERT_TRUE(segments.append(text, tokens));
      ASSERT_EQ(tokens, whole(text)) << "seed " << seed;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, RealModel, ::testing::ValuesIn(kModels),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace llmd::text
