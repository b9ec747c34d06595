#include "base/text.h"
#include "plugin/registry.h"
#include "request/video.h"
#include "schedule/attributes.h"
#include "schedule/interfaces.h"
#include "schedule/wiring.h"

#include <algorithm>

namespace llmd::plugins {
namespace {

using request::Prompt;
using schedule::RequestContext;

/// What the client's headers say of its videos; nothing when they say nothing that is understood.
std::optional<request::VideoHints> video_hints(HeaderView headers) {
  request::VideoHints hints;
  const auto seconds = parse_double(headers.get("x-llm-d-video-duration-seconds"));
  const bool timed = seconds && *seconds > 0;
  if (timed) hints.seconds = *seconds;

  const auto size = headers.get("x-llm-d-video-resolution");
  const size_t by = size.find_first_of("xX");
  const auto width = parse_int(size.substr(0, by));
  const auto height = by == size.npos ? std::nullopt : parse_int(size.substr(by + 1));
  const bool sized = width && height && *width > 0 && *height > 0;
  if (sized) {
    hints.width = static_cast<uint64_t>(*width);
    hints.height = static_cast<uint64_t>(*height);
  }
  return timed || sized ? std::optional(hints) : std::nullopt;
}

bool is_video(const request::Piece& piece) {
  return piece.kind == request::Piece::Kind::kPlaceholder &&
         piece.modality == request::Modality::kVideo;
}

bool has_video(const Prompt& prompt) {
  return std::ranges::any_of(prompt.pieces, is_video);
}

/// Gives the request's videos as many tokens as `hints` say.
void resize_videos(RequestContext& context, const request::VideoHints& hints) {
  auto prompts = context.arena.array<Prompt>(context.request->prompts.size());
  std::ranges::copy(context.request->prompts, prompts.begin());
  for (auto& prompt : prompts) {
    if (!has_video(prompt)) continue;
    auto pieces = context.arena.array<request::Piece>(prompt.pieces.size());
    std::ranges::copy(prompt.pieces, pieces.begin());
    for (auto& piece : pieces)
      if (is_video(piece)) piece.count = request::video_tokens(hints);
    prompt.pieces = pieces;
  }
  auto* view = context.arena.make<request::RequestView>(*context.request);
  view->prompts = prompts;
  context.request = view;
}

/// The estimate: prompts count as the parser left them, token ids as such and text as four bytes a
/// token; only videos may be longer or shorter than was guessed. Beside that the plugin stands for
/// the order of those that read prompts.
class TokenProducer final : public schedule::Producer {
 public:
  void wire(schedule::Wiring& wiring) override { wiring.produces<schedule::TokenizedPrompt>(); }

  Result<schedule::Progress> produce(RequestContext& context) const override {
    if (context.request && std::ranges::any_of(context.request->prompts, has_video))
      if (const auto hints = video_hints(context.headers)) resize_videos(context, *hints);
    return schedule::Progress::kDone;
  }
};

}  // namespace

const plugin::Descriptor& token_producer() {
  static const auto descriptor = plugin::describe<TokenProducer>(
      {.type = "token-producer",
       .kind = "producer",
       .summary = "Provides prompts as tokens: ids where the client gave them, else an estimate of "
                  "four bytes a token. Videos count by x-llm-d-video-duration-seconds and "
                  "x-llm-d-video-resolution where the client sends them.",
       .produces_by_default = {"TokenizedPrompt/token-producer"}});
  return descriptor;
}

}  // namespace llmd::plugins
