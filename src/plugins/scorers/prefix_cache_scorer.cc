#include "plugin/registry.h"
#include "schedule/attributes.h"
#include "schedule/interfaces.h"
#include "schedule/wiring.h"

#include <algorithm>

namespace llmd::plugins {
namespace {

using schedule::PrefixMatch;

struct Params {
  std::string producer = "approx-prefix-cache-producer";
  double length_weight = 0;
  int64_t length_scale_tokens = 8192;
};

const plugin::Params<Params>& table() {
  static const plugin::Params<Params> params = {
      plugin::field("prefixMatchInfoProducerName", &Params::producer, "",
                    "Producer of the prefix matches."),
      plugin::field("matchLengthWeight", &Params::length_weight, "",
                    "Share of the score that comes from the matched length rather than from the "
                    "matched fraction of the prompt.")
          .min(0)
          .max(1),
      plugin::field("matchLengthScaleTokens", &Params::length_scale_tokens, "tokens",
                    "Matched length from which on the length counts in full; above 0 when "
                    "matchLengthWeight is."),
  };
  return params;
}

class PrefixCacheScorer final : public schedule::Scorer {
 public:
  static Result<std::unique_ptr<PrefixCacheScorer>> create(Params p, const plugin::Context&) {
    if (p.length_weight > 0 && p.length_scale_tokens <= 0)
      return fail(Code::kBadRequest,
                  "parameter 'matchLengthScaleTokens': " + std::to_string(p.length_scale_tokens) +
                      " must be above 0 when matchLengthWeight is");
    return std::make_unique<PrefixCacheScorer>(std::move(p));
  }

  explicit PrefixCacheScorer(Params params) : params_(std::move(params)) {}

  void wire(schedule::Wiring& wiring) override {
    matches_ = wiring.consumes<PrefixMatch>(params_.producer, schedule::Need::kRequired);
  }

  void score(schedule::RequestContext& context, std::span<const uint32_t> selected,
             std::span<double> scores) const override {
    const auto matches = context.read(matches_);
    if (matches.empty()) return;
    trace::Stage stage(context.trace, "score_prefix_cache", trace::Scope::kPlugins);
    for (size_t k = 0; k < selected.size(); ++k) scores[k] = rate(matches[selected[k]]);
    if (stage) describe(stage, context, matches);
  }

 private:
  /// Of the media of the prompts, for those who look at the trace.
  static void describe(trace::Stage& stage, const schedule::RequestContext& context,
                       std::span<const PrefixMatch> matches) {
    stage.set("llm_d.epp.scorer.candidate_endpoints", matches.size());
    if (!context.request) return;
    size_t media = 0;
    for (const auto& prompt : context.request->prompts) {
      if (media == 0 && !prompt.media.empty())
        stage.set("mm.modality", request::modality_name(prompt.media[0].modality));
      media += prompt.media.size();
    }
    if (media == 0) return;
    stage.set("mm.hash_count", media);
    stage.set("mm.hit", std::ranges::any_of(matches, [](const PrefixMatch& match) {
                return match.cached && match.cached->media.value_or(0) > 0;
              }));
  }

  double rate(const PrefixMatch& match) const {
    if (match.total_blocks <= 0) return 0;
    const double w = params_.length_weight;
    const double fraction = match.match_blocks / static_cast<double>(match.total_blocks);
    double length = 0;
    if (w > 0 && match.block_tokens > 0)
      length = std::min(1.0, match.match_blocks * static_cast<double>(match.block_tokens) /
                                 static_cast<double>(params_.length_scale_tokens));
    return w * length * length + (1 - w) * fraction;
  }

  const Params params_;
  schedule::Consumed<PrefixMatch> matches_;
};

}  // namespace

const plugin::Descriptor& multicluster_prefix_cache_scorer() {
  static const auto descriptor = plugin::describe<PrefixCacheScorer>(
      {.type = "multicluster-prefix-cache-scorer",
       .kind = "scorer",
       .summary = "The same as prefix-cache-scorer, for endpoints that are clusters.",
       .stability = plugin::Stability::kAlpha},
      table());
  return descriptor;
}

const plugin::Descriptor& prefix_cache_scorer() {
  static const auto descriptor = plugin::describe<PrefixCacheScorer>(
      {.type = "prefix-cache-scorer",
       .kind = "scorer",
       .summary = "Prefers the longest cached prefix of the prompt: the share of its blocks that "
                  "the endpoint holds."},
      table());
  return descriptor;
}

}  // namespace llmd::plugins
