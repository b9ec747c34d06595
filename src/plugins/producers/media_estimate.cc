#include "media_estimate.h"

#include "base/text.h"
#include "request/media_size.h"
#include "request/video.h"

#include <algorithm>

namespace llmd::plugins {
namespace {

using E = MediaEstimate;
using plugin::field;
using plugin::object_field;
using plugin::Params;
using request::Piece;
using request::Prompt;

/// Frames before a stride is taken; more are not told apart.
constexpr double kFramesMax = 1e9;
constexpr int64_t kSideMax = 65536;

const Params<E::Resolution>& resolution_table() {
  static const Params<E::Resolution> params = {
      field("width", &E::Resolution::width, "pixels", "Width.").min(1).max(kSideMax),
      field("height", &E::Resolution::height, "pixels", "Height.").min(1).max(kSideMax),
  };
  return params;
}

const Params<E::Dynamic>& dynamic_table() {
  static const Params<E::Dynamic> params = {
      field("factor", &E::Dynamic::factor, "pixels", "That make a token.").min(1),
  };
  return params;
}

Params<E::Static> static_table(std::string_view name) {
  return {field(name, &E::Static::tokens, "tokens", "Count.").min(1)};
}

template <class T>
plugin::Param<T> mode_field(std::string_view first, std::string_view second) {
  return field("mode", &T::mode, "", "Which of the two counts.").one_of({first, second});
}

Params<E::Image> image_table() {
  return {
      mode_field<E::Image>("dynamic", "static"),
      object_field("defaultResolution", &E::Image::resolution, resolution_table(),
                   "Of images that are not in the request as base64 PNG, JPEG or GIF."),
      object_field("dynamic", &E::Image::dynamic, dynamic_table(), "By size."),
      object_field("static", &E::Image::fixed, static_table("staticToken"), "All alike."),
  };
}

Params<E::PerFrame> per_frame_table() {
  return {
      mode_field<E::PerFrame>("dynamic", "static"),
      object_field("dynamic", &E::PerFrame::dynamic, dynamic_table(), "By size."),
      object_field("static", &E::PerFrame::fixed, static_table("numTokensPerFrame"), "All alike."),
  };
}

Params<E::Frames> frames_table() {
  const Params<E::Sampled> sampled = {
      field("sampleFPS", &E::Sampled::fps, "1/s", "Frames that are looked at.").positive(),
      field("temporalPatchSize", &E::Sampled::temporal_patch, "frames", "That become one.").min(1),
  };
  const Params<E::Strided> strided = {
      field("defaultSourceFPS", &E::Strided::source_fps, "1/s",
            "Of videos without x-llm-d-video-fps.")
          .positive(),
      field("frameStride", &E::Strided::stride, "frames", "Of which one is looked at.").min(1),
  };
  return {
      mode_field<E::Frames>("sampled", "strided"),
      field("minFrames", &E::Frames::min, "", "At least so many.").min(0),
      field("maxFrames", &E::Frames::max, "", "At most so many; 0: any number.").min(0),
      object_field("sampled", &E::Frames::sampled, sampled, "So many a second."),
      object_field("strided", &E::Frames::strided, strided, "Each n-th."),
  };
}

Params<E::Video> video_table() {
  return {
      object_field("tokensPerFrame", &E::Video::per_frame, per_frame_table(), "Of a frame."),
      object_field("frames", &E::Video::frames, frames_table(), "How many count."),
      object_field("defaultResolution", &E::Video::resolution, resolution_table(),
                   "Of videos without x-llm-d-video-resolution."),
      field("defaultDuration", &E::Video::seconds, "s",
            "Of videos without x-llm-d-video-duration-seconds.")
          .positive(),
      field("maxVideoTokens", &E::Video::tokens_max, "tokens", "Of a video; 0: no bound.").min(0),
  };
}

std::optional<double> positive(std::string_view text) {
  const auto number = parse_double(text);
  return number && *number > 0 ? number : std::nullopt;
}

uint64_t by_size(const E::Dynamic& dynamic, uint64_t width, uint64_t height) {
  constexpr uint64_t kMost = request::kMediaTokensMax * 1024;
  return std::min(width, kMost) * std::min(height, kMost) / static_cast<uint64_t>(dynamic.factor);
}

uint32_t bounded(uint64_t tokens) {
  return static_cast<uint32_t>(std::clamp<uint64_t>(tokens, 1, request::kMediaTokensMax));
}

uint64_t frames_of(const E::Video& video, const VideoFacts& facts) {
  const auto& frames = video.frames;
  const bool strided = frames.mode == "strided";
  const double fps = strided ? facts.fps.value_or(frames.strided.source_fps) : frames.sampled.fps;
  auto count =
      static_cast<int64_t>(std::min(facts.seconds.value_or(video.seconds) * fps, kFramesMax));
  if (strided) count /= frames.strided.stride;
  count = std::max(count, frames.min);
  if (frames.max > 0) count = std::min(count, frames.max);
  if (!strided) count /= frames.sampled.temporal_patch;
  return static_cast<uint64_t>(count);
}

/// The piece's tokens by the estimate; as many as before where it does not speak of its kind.
uint32_t tokens_of(const Piece& piece, const E& estimate, const VideoFacts& facts, bool images) {
  if (piece.modality == request::Modality::kVideo) return video_tokens(estimate.video, facts);
  if (images && piece.modality == request::Modality::kImage)
    return image_tokens(estimate.image, piece.text);
  return piece.count;
}

}  // namespace

const Params<E>& media_estimate_params() {
  static const Params<E> params = {
      object_field("image", &E::image, image_table(), "Images."),
      object_field("video", &E::video, video_table(),
                   "Videos: frames times tokens of a frame. What headers say of them goes first."),
  };
  return params;
}

VideoFacts video_facts(HeaderView headers) {
  VideoFacts facts;
  facts.seconds = positive(headers.get("x-llm-d-video-duration-seconds"));
  facts.fps = positive(headers.get("x-llm-d-video-fps"));
  const auto size = headers.get("x-llm-d-video-resolution");
  const size_t by = size.find_first_of("xX");
  const auto width = parse_int(size.substr(0, by));
  const auto height = by == size.npos ? std::nullopt : parse_int(size.substr(by + 1));
  if (width && height && *width > 0 && *height > 0)
    facts.resolution = {.width = *width, .height = *height};
  return facts;
}

uint32_t image_tokens(const E::Image& image, std::string_view content) {
  if (image.mode == "static") return bounded(static_cast<uint64_t>(image.fixed.tokens));
  const auto size = request::image_size(content).value_or(
      request::ImageSize{static_cast<uint64_t>(image.resolution.width),
                         static_cast<uint64_t>(image.resolution.height)});
  return bounded(by_size(image.dynamic, size.width, size.height));
}

uint32_t video_tokens(const E::Video& video, const VideoFacts& facts) {
  const auto size = facts.resolution.value_or(video.resolution);
  const uint64_t frame = video.per_frame.mode == "static"
                             ? static_cast<uint64_t>(video.per_frame.fixed.tokens)
                             : by_size(video.per_frame.dynamic, static_cast<uint64_t>(size.width),
                                       static_cast<uint64_t>(size.height));
  const uint64_t all = frames_of(video, facts) * bounded(frame);
  const auto most = static_cast<uint64_t>(video.tokens_max);
  return bounded(most > 0 ? std::min(all, most) : all);
}

void resize_media(schedule::RequestContext& context, const std::optional<E>& estimate) {
  const auto facts = video_facts(context.headers);
  if (!estimate && !facts.seconds && !facts.resolution) return;
  const E effective = estimate.value_or(E());
  const auto changed = [&](const Piece& piece) {
    return piece.kind == Piece::Kind::kPlaceholder &&
           tokens_of(piece, effective, facts, estimate.has_value()) != piece.count;
  };
  const auto concerned = [&](const Prompt& prompt) {
    return std::ranges::any_of(prompt.pieces, changed);
  };
  if (std::ranges::none_of(context.request->prompts, concerned)) return;
  auto prompts = context.arena.array<Prompt>(context.request->prompts.size());
  std::ranges::copy(context.request->prompts, prompts.begin());
  for (auto& prompt : prompts) {
    if (!concerned(prompt)) continue;
    auto pieces = context.arena.array<Piece>(prompt.pieces.size());
    std::ranges::copy(prompt.pieces, pieces.begin());
    for (auto& piece : pieces)
      if (changed(piece)) piece.count = tokens_of(piece, effective, facts, estimate.has_value());
    prompt.pieces = pieces;
  }
  auto* view = context.arena.make<request::RequestView>(*context.request);
  view->prompts = prompts;
  context.request = view;
}

}  // namespace llmd::plugins
