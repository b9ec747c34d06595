#include "idle_fleet.h"

#include <gtest/gtest.h>

namespace llmd::regress {
namespace {

/// llm-d-router#860, GIE#2724: prompts of an array were joined or refused.

std::string text(char letter) {
  return "\"" + std::string(1024, letter) + "\"";
}

TEST(Case14, EveryPromptOfAnArrayEarnsItsOwnCredit) {
  conformance::Picker picker(idle_fleet(3));
  picker.run(completion("train", text('a'), 0));
  picker.run(completion("train", text('b'), 1));
  const auto answer = picker.run(completion("probe", "[" + text('a') + "," + text('b') + "]"));
  EXPECT_DOUBLE_EQ(answer.scores.at("e0"), 2 + 2 + 3 * 0.5);
  EXPECT_DOUBLE_EQ(answer.scores.at("e1"), 2 + 2 + 3 * 0.5);
  EXPECT_DOUBLE_EQ(answer.scores.at("e2"), 2 + 2);
}

TEST(Case14, TokenIdsAreOnePrompt) {
  conformance::Picker picker(idle_fleet(2));
  picker.run(completion("train", "[1,2,3]", 1));
  EXPECT_DOUBLE_EQ(picker.run(completion("probe", "[1,2,3]")).scores.at("e1"), 4 + 3);
  EXPECT_DOUBLE_EQ(picker.run(completion("probe", "[1,2]")).scores.at("e1"), 4);
}

TEST(Case14, EveryListOfTokenIdsIsItsOwnPrompt) {
  conformance::Picker picker(idle_fleet(3));
  picker.run(completion("train", "[1,2,3]", 0));
  picker.run(completion("train", "[4,5]", 1));
  const auto answer = picker.run(completion("probe", "[[1,2,3],[4,5]]"));
  EXPECT_DOUBLE_EQ(answer.scores.at("e0"), 2 + 2 + 3 * 0.5);
  EXPECT_DOUBLE_EQ(answer.scores.at("e1"), 2 + 2 + 3 * 0.5);
  EXPECT_DOUBLE_EQ(answer.scores.at("e2"), 2 + 2);
  EXPECT_EQ(picker.run(completion("probe", "[[1,2],[3]]")).scores.size(), 3u);
}

}  // namespace
}  // namespace llmd::regress
