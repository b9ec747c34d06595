#include "media_estimate.h"

#include "codec/node.h"

#include <gtest/gtest.h>

namespace llmd::plugins {
namespace {

MediaEstimate estimate(std::string_view yaml) {
  const auto node = codec::parse_yaml(yaml, "test.yaml");
  auto params = media_estimate_params().parse(&*node);
  EXPECT_TRUE(params) << params.error().message;
  return *params;
}

std::string error(std::string_view yaml) {
  const auto node = codec::parse_yaml(yaml, "test.yaml");
  const auto params = media_estimate_params().parse(&*node);
  return params ? "" : params.error().message;
}

constexpr std::string_view kAddress = "https://example.com/a.png";
/// 16 × 512 pixels.
constexpr std::string_view kBase64 = "iVBORw0KGgoAAAANSUhEUgAAABAAAAIACAYAAAA=";

TEST(MediaEstimate, CountsImagesBySize) {
  const auto of = [](std::string_view yaml, std::string_view content) {
    return image_tokens(estimate(yaml).image, content);
  };
  EXPECT_EQ(of("{}", kAddress), 225u);
  EXPECT_EQ(of("image: {defaultResolution: {width: 1280, height: 720}}", kAddress), 900u);
  EXPECT_EQ(of("image: {dynamic: {factor: 256}}", kAddress), 900u);
  EXPECT_EQ(of("image: {dynamic: {factor: 10000000}}", kAddress), 1u);
  EXPECT_EQ(of("image: {dynamic: {factor: 16}}", kBase64), 512u);
  EXPECT_EQ(of("image: {dynamic: {factor: 16}}", "data:image/png;base64," + std::string(kBase64)),
            512u);
  EXPECT_EQ(of("image: {mode: static, static: {staticToken: 77}}", kBase64), 77u);
  EXPECT_EQ(of("image: {mode: static}", kBase64), 1u);
}

TEST(MediaEstimate, CountsVideosByFrames) {
  const auto of = [](std::string_view yaml, const VideoFacts& facts = {}) {
    return video_tokens(estimate(yaml).video, facts);
  };
  EXPECT_EQ(of("{}"), 20u * 225);
  EXPECT_EQ(of("video: {defaultDuration: 3.3}"), 6u * 225);
  EXPECT_EQ(of("video: {frames: {sampled: {sampleFPS: 1, temporalPatchSize: 4}}}"), 2u * 225);
  EXPECT_EQ(of("video: {frames: {minFrames: 30}}"), 30u * 225);
  EXPECT_EQ(of("video: {frames: {maxFrames: 8, sampled: {temporalPatchSize: 2}}}"), 4u * 225);
  EXPECT_EQ(of("video: {maxVideoTokens: 1000}"), 1000u);
  EXPECT_EQ(of("video: {tokensPerFrame: {mode: static, static: {numTokensPerFrame: 66}}}"),
            20u * 66);
  EXPECT_EQ(of("video: {tokensPerFrame: {dynamic: {factor: 2304}}}"), 20u * 100);
  EXPECT_EQ(of("video: {defaultResolution: {width: 1280, height: 720}}"), 20u * 900);

  constexpr std::string_view kStrided =
      "video: {frames: {mode: strided, maxFrames: 50, strided: {frameStride: 10}}}";
  EXPECT_EQ(of(kStrided), 24u * 225);
  EXPECT_EQ(of(kStrided, {.seconds = 2, .resolution = {}, .fps = 30}), 6u * 225);
  EXPECT_EQ(of(kStrided, {.seconds = 1e300, .resolution = {}, .fps = {}}), 50u * 225);
  EXPECT_EQ(of("{}", {.seconds = 2, .resolution = {{1280, 720}}, .fps = 99}), 4u * 900);
}

TEST(MediaEstimate, ReadsItsParametersStrictly) {
  EXPECT_EQ(error("{}"), "");
  EXPECT_NE(error("image: {mode: statik}").find("'static'"), std::string::npos);
  EXPECT_NE(error("image: {static: {staticToken: 0}}").find("staticToken"), std::string::npos);
  EXPECT_NE(error("video: {frames: {sampled: {sampleFps2: 1}}}").find("sampleFPS"),
            std::string::npos);
  EXPECT_NE(error("video: {defaultDuration: 0}").find("defaultDuration"), std::string::npos);
}

}  // namespace
}  // namespace llmd::plugins
