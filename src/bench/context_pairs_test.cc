#include "bench/context_pairs.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <set>

namespace llmd::bench {
namespace {

/// Tokens under the simulator's dummy tokenizer: alphanumeric runs and single punctuation marks,
/// spaces belong to either.
size_t count_tokens(std::string_view text) {
  size_t tokens = 0;
  for (size_t i = 0; i < text.size();) {
    if (std::isalnum(static_cast<unsigned char>(text[i]))) {
      while (i < text.size() && std::isalnum(static_cast<unsigned char>(text[i]))) ++i;
      ++tokens;
    } else {
      if (text[i] != ' ' && text[i] != '\n') ++tokens;
      ++i;
    }
  }
  return tokens;
}

TEST(ContextPairs, HaveTheTokensAskedForToWithinALine) {
  Rng rng(1);
  for (const auto& pair : make_context_pairs(rng, 5, 5200)) {
    const size_t tokens = count_tokens(pair.context);
    EXPECT_LE(tokens, 5200u);
    EXPECT_GT(tokens, 5200u - kTokensPerLine);
  }
}

TEST(ContextPairs, AskTwoQuestionsAboutOneContext) {
  Rng rng(1);
  const auto pair = make_context_pairs(rng, 1, 200).front();
  EXPECT_EQ(pair.first, pair.context + "\nQuestion: Summarize the observations.");
  EXPECT_EQ(pair.second,
            pair.context + "\nQuestion: Which measurements should engineers collect next?");
}

TEST(ContextPairs, DifferFromTheFirstBytes) {
  Rng rng(1);
  std::set<std::string> heads;
  for (const auto& pair : make_context_pairs(rng, 50, 40)) heads.insert(pair.context.substr(0, 16));
  EXPECT_EQ(heads.size(), 50u);
}

TEST(ContextPairs, RepeatForOneSeed) {
  Rng a(9), b(9), c(10);
  const auto first = make_context_pairs(a, 2, 300);
  EXPECT_EQ(first[1].second, make_context_pairs(b, 2, 300)[1].second);
  EXPECT_NE(first[1].second, make_context_pairs(c, 2, 300)[1].second);
}

TEST(ChatBody, IsTheRequestOfTheExperiment) {
  const auto body = nlohmann::json::parse(chat_body("m\"x", "line one\nline \"two\""));
  EXPECT_EQ(body["model"], "m\"x");
  EXPECT_EQ(body["messages"][0]["role"], "user");
  EXPECT_EQ(body["messages"][0]["content"], "line one\nline \"two\"");
  EXPECT_EQ(body["max_tokens"], 32);
  EXPECT_EQ(body["temperature"], 0);
  EXPECT_EQ(body["stream"], true);
  EXPECT_EQ(body["stream_options"]["include_usage"], true);
}

}  // namespace
}  // namespace llmd::bench
