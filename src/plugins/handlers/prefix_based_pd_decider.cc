#include "request_tokens.h"

#include "plugin/registry.h"
#include "schedule/attributes.h"
#include "schedule/interfaces.h"
#include "schedule/wiring.h"

namespace llmd::plugins {
namespace {

using schedule::PrefixMatch;

struct Params {
  int64_t non_cached_tokens = 0;
  int64_t prompt_tokens = 0;
  std::string producer = "approx-prefix-cache-producer";
};

const plugin::Params<Params>& table() {
  static const plugin::Params<Params> params = {
      plugin::field("nonCachedTokens", &Params::non_cached_tokens, "tokens",
                    "So much of the prompt must be missing in the decoding endpoint's cache; 0: "
                    "prompts are never processed elsewhere.")
          .min(0),
      plugin::field("promptTokens", &Params::prompt_tokens, "tokens",
                    "Shorter prompts are never processed elsewhere.")
          .min(0),
      plugin::field("prefixMatchInfoProducerName", &Params::producer, "",
                    "Producer of the prefix matches."),
  };
  return params;
}

class PrefixBasedPdDecider final : public schedule::Decider {
 public:
  PrefixBasedPdDecider(Params p, const plugin::Context&) : params_(std::move(p)) {}

  void wire(schedule::Wiring& wiring) override {
    wiring.consumes<schedule::TokenizedPrompt>("token-producer", schedule::Need::kRequired);
    matches_ = wiring.consumes<PrefixMatch>(params_.producer, schedule::Need::kRequired);
  }

  /// Tiers do not matter: a block in slow memory need not be computed either.
  bool separates(const schedule::RequestContext& context,
                 std::optional<uint32_t> decode) const override {
    if (params_.non_cached_tokens == 0 || !decode) return false;
    const int64_t tokens = request_tokens(context);
    if (tokens < params_.prompt_tokens || tokens < params_.non_cached_tokens) return false;
    const auto matches = context.read(matches_);
    if (matches.empty()) return false;
    const PrefixMatch& match = matches[*decode];
    return tokens - match.cached_blocks * match.block_tokens >= params_.non_cached_tokens;
  }

 private:
  const Params params_;
  schedule::Consumed<PrefixMatch> matches_;
};

}  // namespace

const plugin::Descriptor& prefix_based_pd_decider() {
  static const auto descriptor = plugin::describe<PrefixBasedPdDecider>(
      {.type = "prefix-based-pd-decider",
       .kind = "decider",
       .summary = "Has a prompt processed on an endpoint of its own when the decoding one has too "
                  "little of it cached."},
      table());
  return descriptor;
}

}  // namespace llmd::plugins
