#include "plugin/registry.h"
#include "schedule/attributes.h"
#include "schedule/interfaces.h"
#include "schedule/wiring.h"

#include <algorithm>

namespace llmd::plugins {
namespace {

class AlwaysDisaggMultimodalDecider final : public schedule::Decider {
 public:
  void wire(schedule::Wiring& wiring) override {
    wiring.consumes<schedule::TokenizedPrompt>("token-producer", schedule::Need::kRequired);
  }

  bool separates(const schedule::RequestContext& context, std::optional<uint32_t>) const override {
    const auto is_media = [](const request::Piece& piece) {
      return piece.kind == request::Piece::Kind::kPlaceholder;
    };
    return context.request &&
           std::ranges::any_of(context.request->prompts, [&](const auto& prompt) {
             return !prompt.media.empty() || std::ranges::any_of(prompt.pieces, is_media);
           });
  }
};

}  // namespace

const plugin::Descriptor& always_disagg_multimodal_decider() {
  static const auto descriptor = plugin::describe<AlwaysDisaggMultimodalDecider>(
      {.type = "always-disagg-multimodal-decider",
       .kind = "decider",
       .summary = "Has images, audio and video encoded on an endpoint of their own.",
       .ignores_parameters = true});
  return descriptor;
}

}  // namespace llmd::plugins
