#include "idle_fleet.h"

#include <gtest/gtest.h>

namespace llmd::regress {
namespace {

/// GIE#2878, llm-d-router#1158: an engine that reports blocks of one token made the index explode.

TEST(Case17, BlocksAreNeverSmallerThan64Tokens) {
  conformance::Picker picker(idle_fleet(2, 1));
  // 130 tokens are two blocks of 64 and a rest; a prompt that shares 100 tokens shares one block.
  const std::string common(400, 'a');
  picker.run(completion("train", "\"" + common + std::string(120, 'b') + "\"", 0));
  const auto answer = picker.run(completion("probe", "\"" + common + std::string(120, 'c') + "\""));
  EXPECT_DOUBLE_EQ(answer.scores.at("e0"), 4 + 3 * (1.0 / 3));
}

}  // namespace
}  // namespace llmd::regress
