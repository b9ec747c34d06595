#include "answer.h"

#include <gtest/gtest.h>

namespace llmd::render {
namespace {

std::string error_of(std::string_view body, bool chat) {
  const auto prompts = read_answer(body, chat);
  return prompts ? "" : prompts.error().message;
}

TEST(Answer, HasTheTokensOfAChat) {
  const auto prompts = read_answer(
      R"({"request_id":"x","token_ids":[1,4294967295],"features":null,"model":"m"})", true);
  ASSERT_TRUE(prompts) << prompts.error().message;
  ASSERT_EQ(prompts->size(), 1u);
  EXPECT_EQ((*prompts)[0].token_ids, (std::vector<uint32_t>{1, UINT32_MAX}));
}

TEST(Answer, HasTheTokensOfEachPrompt) {
  const auto prompts = read_answer(R"([{"token_ids":[1]},{"token_ids":[]}])", false);
  ASSERT_TRUE(prompts);
  ASSERT_EQ(prompts->size(), 2u);
  EXPECT_TRUE((*prompts)[1].token_ids.empty());
}

TEST(Answer, HasMediaByTheirPlaces) {
  const auto prompts = read_answer(
      R"({"token_ids":[1],"features":{
          "mm_hashes":{"image":["a","b",null],"audio":["c"],"smell":["d"]},
          "mm_placeholders":{"image":[{"offset":9,"length":2},{"offset":1,"length":3},
                                      {"offset":2,"length":1}],
                             "audio":[{"offset":5,"length":4},{"offset":6,"length":1}]}}})",
      true);
  ASSERT_TRUE(prompts);
  const auto& media = (*prompts)[0].media;
  ASSERT_EQ(media.size(), 3u);
  EXPECT_EQ(media[0].hash, "b");
  EXPECT_EQ(media[1].hash, "c");
  EXPECT_EQ(media[1].modality, request::Modality::kAudio);
  EXPECT_EQ(media[2].offset, 9u);
  EXPECT_EQ(media[2].length, 2u);
}

TEST(Answer, IsRefusedWhenItIsNone) {
  EXPECT_EQ(error_of("nonsense", true), "the rendered prompt has no fields");
  EXPECT_EQ(error_of("{}", true), "the rendered prompt has no list token_ids");
  EXPECT_EQ(error_of(R"({"token_ids":[-1]})", true),
            "the rendered prompt has a token id that is not a whole number of 32 bits");
  EXPECT_EQ(error_of(R"({"token_ids":[4294967296]})", true),
            "the rendered prompt has a token id that is not a whole number of 32 bits");
  EXPECT_EQ(error_of("[]", false), "there is no list of rendered prompts");
  EXPECT_EQ(error_of(R"({"token_ids":[1]})", false), "there is no list of rendered prompts");
}

}  // namespace
}  // namespace llmd::render
