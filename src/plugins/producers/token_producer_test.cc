#include "schedule/testing.h"

#include <gtest/gtest.h>

namespace llmd::plugins {

const plugin::Descriptor& token_producer();

namespace {

using request::Piece;
using schedule::testing::Harness;

constexpr std::string_view kSeconds = "x-llm-d-video-duration-seconds";
constexpr std::string_view kSize = "x-llm-d-video-resolution";

/// How many tokens a video counts as under these headers.
uint32_t count_of(std::vector<HeaderField> headers, bool video = true) {
  Harness harness(1);
  const auto& producer = harness.make<schedule::Producer>(token_producer());
  const Piece pieces[] = {
      {.text = "what is it?", .bytes = 11},
      {.kind = Piece::Kind::kPlaceholder,
       .modality = video ? request::Modality::kVideo : request::Modality::kImage,
       .count = 4500}};
  const request::Prompt prompt{.pieces = pieces};
  request::RequestView view;
  view.prompts = {&prompt, 1};
  harness.context.request = &view;
  harness.context.headers = HeaderView(headers);
  EXPECT_TRUE(producer.produce(harness.context));
  EXPECT_EQ(view.prompts[0].pieces[1].count, 4500u);
  const auto& after = harness.context.request->prompts[0].pieces;
  EXPECT_EQ(after[0].text, "what is it?");
  return after[1].count;
}

TEST(TokenProducer, SizesVideosByHeaders) {
  EXPECT_EQ(count_of({}), 4500u);
  EXPECT_EQ(count_of({{kSeconds, "3"}}), 6u * 225);
  EXPECT_EQ(count_of({{kSeconds, "1.49"}}), 2u * 225);
  EXPECT_EQ(count_of({{kSeconds, "0.1"}}), 1u);
  EXPECT_EQ(count_of({{kSize, "1280x720"}}), 20u * 900);
  EXPECT_EQ(count_of({{kSize, "1X1"}}), 20u);
  EXPECT_EQ(count_of({{kSeconds, "2"}, {kSize, "1280x720"}}), 4u * 900);
}

TEST(TokenProducer, CountsMediaAsConfigured) {
  Harness harness(1);
  const auto& producer = harness.make<schedule::Producer>(
      token_producer(),
      "estimate: {image: {mode: static, static: {staticToken: 7}}, "
      "video: {defaultDuration: 1}}");
  const auto media = [](request::Modality modality, uint32_t count) {
    return Piece{.kind = Piece::Kind::kPlaceholder, .modality = modality, .count = count};
  };
  const Piece pieces[] = {media(request::Modality::kImage, 225),
                          media(request::Modality::kAudio, 11),
                          media(request::Modality::kVideo, 4500)};
  const request::Prompt prompt{.pieces = pieces};
  request::RequestView view;
  view.prompts = {&prompt, 1};
  harness.context.request = &view;
  EXPECT_TRUE(producer.produce(harness.context));
  const auto& after = harness.context.request->prompts[0].pieces;
  EXPECT_EQ(after[0].count, 7u);
  EXPECT_EQ(after[1].count, 11u);
  EXPECT_EQ(after[2].count, 2u * 225);
}

TEST(TokenProducer, LeavesVideosWhereHeadersSayNothing) {
  for (const auto* seconds : {"", "abc", "-3", "0", " 3", "nan", "inf"})
    EXPECT_EQ(count_of({{kSeconds, seconds}}), 4500u) << seconds;
  for (const auto* size : {"", "0x5", "640x", "640x-360", "640*360", "1x2x3"})
    EXPECT_EQ(count_of({{kSize, size}}), 4500u) << size;
  EXPECT_EQ(count_of({{kSeconds, "3"}}, false), 4500u);
}

TEST(TokenProducer, BoundsWhatHeadersClaim) {
  EXPECT_EQ(count_of({{kSeconds, "1e300"}}), 131072u);
  EXPECT_EQ(count_of({{kSize, "9223372036854775807x9223372036854775807"}}), 131072u);
}

}  // namespace
}  // namespace llmd::plugins
