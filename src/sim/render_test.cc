#include "render.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace llmd::sim {
namespace {

using nlohmann::json;

json rendered(const json& body, bool chat) {
  GenerationRequest request;
  const auto error = read_generation(body, chat, request);
  EXPECT_FALSE(error) << error->message;
  return json::parse(render_answer(body, request, "id", "m"));
}

TEST(Render, GivesTheTokensOfAChat) {
  const json answer =
      rendered({{"messages", {{{"role", "user"}, {"content", "Hello"}}}}, {"max_tokens", 8}}, true);
  EXPECT_EQ(answer["token_ids"],
            (json{638357778, 638357778, 399020470, 1618501362, 2382766391, 2166458707}));
  EXPECT_EQ(answer["request_id"], "id");
  EXPECT_TRUE(answer["features"].is_null());
  EXPECT_EQ(answer["sampling_params"]["max_tokens"], 8);
}

TEST(Render, GivesTheTokensOfEachPrompt) {
  const json answers = rendered({{"prompt", {"Hello world", "c"}}, {"cache_salt", "s"}}, false);
  ASSERT_EQ(answers.size(), 2u);
  EXPECT_EQ(answers[0]["token_ids"], (json{2871118705, 933488787}));
  EXPECT_EQ(answers[1]["request_id"], "id-1");
  EXPECT_EQ(answers[1]["cache_salt"], "s");
  const json ids = rendered(json::parse(R"({"prompt":[1,2,3]})"), false);
  EXPECT_EQ(ids[0]["token_ids"], (json{1, 2, 3}));
  EXPECT_EQ(ids[0]["request_id"], "id");
}

TEST(Render, PlacesMediaByTheReferenceVector) {
  std::string words;
  for (int i = 0; i < 400; ++i) words += "w ";
  const auto chat = [&](int n) {
    return rendered(
        {{"messages",
          {{{"role", "user"},
            {"content",
             {{{"type", "video_url"}, {"video_url", {{"url", "http://x/v.mp4"}}}},
              {{"type", "text"}, {"text", words.substr(0, 2 * static_cast<size_t>(n))}},
              {{"type", "input_audio"}, {"input_audio", {{"data", "data"}, {"format", "wav"}}}},
              {{"type", "image_url"}, {"image_url", {{"url", "http://x/a.jpg"}}}}}}}}}},
        true);
  };
  // As many words as make 120 tokens with the rest.
  const size_t others = chat(0)["token_ids"].size();
  const json answer = chat(120 - static_cast<int>(others));
  ASSERT_EQ(answer["token_ids"].size(), 120u);
  const json& f = answer["features"];
  EXPECT_EQ(f["mm_hashes"], json::parse(R"({"image":["sim_img_0_98463ad0"],
      "audio":["sim_audio_0_d872e2a5"],"video":["sim_video_0_2747c345"]})"));
  EXPECT_EQ(f["mm_placeholders"], json::parse(R"({"image":[{"offset":0,"length":40}],
      "audio":[{"offset":40,"length":40}],"video":[{"offset":80,"length":40}]})"));
  EXPECT_EQ(f["kwargs_data"]["image"][0], "c2ltX2ltZ18wXzk4NDYzYWQw");
}

}  // namespace
}  // namespace llmd::sim
