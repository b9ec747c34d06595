#pragma once

#include <algorithm>
#include <cstdint>

namespace llmd::request {

/// What is known of the videos of a request; the defaults stand for what is not.
struct VideoHints {
  double seconds = 10;
  uint64_t width = 640;
  uint64_t height = 360;
};

/// No image, sound or video counts as more tokens: no prefix is hashed beyond as many.
inline constexpr uint64_t kMediaTokensMax = 131072;

/// How many tokens a video is taken to be: two frames a second, each of width · height / 1024, and
/// at least 1. Requires: `seconds` is finite and not negative.
constexpr uint32_t video_tokens(const VideoHints& hints) {
  const double most = static_cast<double>(kMediaTokensMax);
  const auto frames = static_cast<uint64_t>(std::min(2 * hints.seconds, most));
  const uint64_t side_max = kMediaTokensMax * 1024;
  const uint64_t frame = std::clamp<uint64_t>(
      std::min(hints.width, side_max) * std::min(hints.height, side_max) / 1024, 1,
      kMediaTokensMax);
  return static_cast<uint32_t>(std::clamp<uint64_t>(frames * frame, 1, kMediaTokensMax));
}

}  // namespace llmd::request
