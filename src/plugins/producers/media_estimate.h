#pragma once

#include "plugin/params.h"
#include "request/request_view.h"
#include "schedule/request_context.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace llmd::plugins {

/// How many tokens images and videos are taken to be (spec 05 §9), under the names of the
/// configuration. The defaults are what parsers count with. Counts are at least 1 and at most
/// request::kMediaTokensMax.
struct MediaEstimate {
  struct Resolution {
    int64_t width = 640;
    int64_t height = 360;
  };
  /// Pixels a token, or a fixed count.
  struct Dynamic {
    int64_t factor = 1024;
  };
  struct Static {
    int64_t tokens = 1;
  };
  struct Image {
    std::string mode = "dynamic";
    Resolution resolution;  // of images whose header cannot be read
    Dynamic dynamic;
    Static fixed;
  };
  struct PerFrame {
    std::string mode = "dynamic";
    Dynamic dynamic;
    Static fixed;
  };
  struct Sampled {
    double fps = 2;
    int64_t temporal_patch = 1;  // frames that become one
  };
  struct Strided {
    double source_fps = 24;
    int64_t stride = 1;
  };
  struct Frames {
    std::string mode = "sampled";
    int64_t min = 0;
    int64_t max = 0;  // 0: any number
    Sampled sampled;
    Strided strided;
  };
  struct Video {
    PerFrame per_frame;
    Frames frames;
    Resolution resolution;
    double seconds = 10;
    int64_t tokens_max = 0;  // 0: none but the general one
  };
  Image image;
  Video video;
};

const plugin::Params<MediaEstimate>& media_estimate_params();

/// What a client's headers say of its videos; nothing of what is not understood.
struct VideoFacts {
  std::optional<double> seconds;
  std::optional<MediaEstimate::Resolution> resolution;
  std::optional<double> fps;
};
VideoFacts video_facts(HeaderView headers);

/// `content`: the image's address, data URL or base64 text.
uint32_t image_tokens(const MediaEstimate::Image& image, std::string_view content);
uint32_t video_tokens(const MediaEstimate::Video& video, const VideoFacts& facts);

/// Gives the request's media the tokens of `estimate`; without one, its videos those that headers
/// speak for. Requires: context.request.
void resize_media(schedule::RequestContext& context, const std::optional<MediaEstimate>& estimate);

}  // namespace llmd::plugins
