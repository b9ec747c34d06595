#include "plugin/registry.h"
#include "producers/precise_lookup.h"
#include "schedule/moved_hook.h"

#include <optional>
#include <string>

namespace llmd::plugins {
namespace {

using schedule::PrefixMatch;
using schedule::RequestContext;

constexpr std::string_view kProducer = "precise-prefix-cache-producer";

/// The scorer from before producers: scores the matches of a precise producer that is declared
/// before it, or does that one's work as well.
class PrecisePrefixCacheScorer final : public schedule::Scorer,
                                       public schedule::Producer,
                                       public schedule::PreRequest,
                                       public schedule::ResponseHook,
                                       public schedule::MovedHook {
 public:
  static Result<std::unique_ptr<PrecisePrefixCacheScorer>> create(PreciseParams params,
                                                                  const plugin::Context& context) {
    LLMD_TRY(complete(params));
    return std::make_unique<PrecisePrefixCacheScorer>(params, context);
  }

  PrecisePrefixCacheScorer(const PreciseParams& params, const plugin::Context& context)
      : own_(std::in_place, params, identity(params, true), context) {}

  void wire(schedule::Wiring& wiring) override {
    std::string producers;
    for (const auto& edge : wiring.edges())
      if (edge.kind == schedule::Wiring::Edge::Kind::kProduces && edge.plugin->type() == kProducer)
        producers += (producers.empty() ? "" : " or ") + edge.plugin->name();
    if (producers.empty()) {
      own_->wire(wiring);
      producers = name();
    } else {
      own_.reset();
    }
    // Several are nobody's name, which is what the loader will say.
    matches_ = wiring.consumes<PrefixMatch>(producers, schedule::Need::kRequired);
  }

  Result<schedule::Progress> produce(RequestContext& context) const override {
    return own_ ? own_->produce(context) : schedule::Progress::kDone;
  }
  Nanos deadline() const override { return PreciseLookup::kSharedTimeout; }
  Status pre_request(RequestContext& context) const override {
    if (own_) own_->commit(context);
    return {};
  }
  void on_moved(RequestContext& context) const override {
    if (own_) own_->on_moved(context);
  }
  void on_end(RequestContext& context, schedule::EndCause cause,
              const request::Usage& usage) const override {
    if (own_) own_->on_end(context, cause, usage);
  }
  void score(RequestContext& context, std::span<const uint32_t> selected,
             std::span<double> scores) const override {
    const auto matches = context.read(matches_);
    if (matches.empty()) return;
    for (size_t k = 0; k < selected.size(); ++k) {
      const PrefixMatch& match = matches[selected[k]];
      if (match.total_blocks > 0)
        scores[k] = match.match_blocks / static_cast<double>(match.total_blocks);
    }
  }
  std::string dump_state() const override { return own_ ? own_->dump() : ""; }

 private:
  std::optional<PreciseLookup> own_;  // empty: somebody else does the work
  schedule::Consumed<PrefixMatch> matches_;
};

}  // namespace

const plugin::Descriptor& precise_prefix_cache_scorer() {
  static const auto descriptor = plugin::describe<PrecisePrefixCacheScorer>(
      {.type = "precise-prefix-cache-scorer",
       .kind = "scorer",
       .summary = "Prefers the longest prefix that endpoints hold by their own account: of the "
                  "precise-prefix-cache-producer that is declared before it, or else of its own.",
       .replaced_by = "precise-prefix-cache-producer and prefix-cache-scorer"},
      kv_precise::precise_params(true));
  return descriptor;
}

}  // namespace llmd::plugins
