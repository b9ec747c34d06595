#include "sim/tokenizer.h"

#include <gtest/gtest.h>

namespace llmd::sim {
namespace {

struct Case {
  std::string_view text;
  std::vector<uint32_t> ids;
};

TEST(Tokenizer, MatchesGoldenIds) {
  const Case cases[] = {
      {"Hello world", {2871118705, 933488787}},
      {"I hear it's very cold.",
       {2062099468, 3265900095, 1194886160, 571247302, 4149321222, 1809349267, 3930381583,
        722245873}},
      {"Testing, testing 1,2,3. ",
       {87415099, 2312110321, 1107366241, 873244444, 688690635, 923577301, 688690635, 906799682,
        2513735939}},
      {"snake_case_id", {3248193624}},
      {"_foo bar", {3658226030, 2169560789, 1991736602}},
      {"héllo wörld", {3977000791, 2147679482, 4060888886, 1460300237}},
      {"### user: Hello\n", {638357778, 638357778, 399020470, 1618501362, 2382766391, 2166458707}},
      {"{\"city\":\"Boston\"}",
       {4262220314, 655135397, 230981954, 655135397, 1057798253, 655135397, 3694567748, 655135397,
        4161554600}},
  };
  for (const auto& c : cases) {
    std::vector<uint32_t> ids;
    tokenize(c.text, ids);
    EXPECT_EQ(ids, c.ids) << c.text;
  }
}

TEST(Tokenizer, KeepsTrailingWhitespaceAndDropsTheRest) {
  std::vector<std::string_view> pieces;
  split_tokens("  a \t\n`b|c__d _e", pieces);
  EXPECT_EQ(pieces, (std::vector<std::string_view>{"a \t\n", "b", "c__d ", "_", "e"}));
}

TEST(Tokenizer, YieldsNothingForTextWithoutTokens) {
  std::vector<uint32_t> ids;
  tokenize("", ids);
  tokenize(" \t|`é", ids);
  EXPECT_TRUE(ids.empty());
}

}  // namespace
}  // namespace llmd::sim
