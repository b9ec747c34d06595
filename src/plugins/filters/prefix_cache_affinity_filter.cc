#include "plugin/registry.h"
#include "schedule/attributes.h"
#include "schedule/interfaces.h"
#include "schedule/wiring.h"

#include <algorithm>
#include <limits>

namespace llmd::plugins {
namespace {

using schedule::InFlightLoad;
using schedule::LatencyPrediction;
using schedule::PrefixMatch;
using schedule::RequestContext;

constexpr std::string_view kThroughput = "prefillThroughput";
constexpr std::string_view kPredictor = "latencyPredictor";

struct Params {
  double threshold = 0.8;
  double exploration = 0;
  double penalty_max_ms = 18000;
  std::string ttft_source = std::string(kThroughput);
  double throughput = 15928;
  std::string matches = "approx-prefix-cache-producer";
  std::string predictions = "predicted-latency-producer";
  std::string load = "inflight-load-producer";
};

const plugin::Params<Params>& table() {
  static const plugin::Params<Params> params = {
      plugin::field("affinityThreshold", &Params::threshold, "",
                    "Matched share of the prompt from which on an endpoint is kept; 0 and less "
                    "turn the filter off.")
          .max(1),
      plugin::field("explorationProbability", &Params::exploration, "",
                    "Share of the requests that the filter lets pass to any endpoint.")
          .min(0)
          .max(1),
      plugin::field("maxTTFTPenaltyMs", &Params::penalty_max_ms, "milliseconds",
                    "How much longer the first token may take on the best endpoint with the prefix "
                    "than on the best without; 0: any time longer.")
          .min(0),
      plugin::field("ttftSource", &Params::ttft_source, "",
                    "Where the time to the first token comes from: the tokens in flight, or "
                    "predictions.")
          .one_of({kThroughput, kPredictor}),
      plugin::field("peakPrefillThroughput", &Params::throughput, "tokens per second",
                    "How fast an endpoint processes prompts; above 0 where it is used.")
          .min(0),
      plugin::field("prefixMatchInfoProducerName", &Params::matches, "",
                    "Producer of the prefix matches."),
      plugin::field("latencyPredictionInfoProducerName", &Params::predictions, "",
                    "Producer of the predictions."),
      plugin::field("inFlightLoadProducerName", &Params::load, "",
                    "Producer of the tokens in flight."),
  };
  return params;
}

class PrefixCacheAffinityFilter final : public schedule::Filter {
 public:
  static Result<std::unique_ptr<PrefixCacheAffinityFilter>> create(Params p,
                                                                   const plugin::Context&) {
    if (p.ttft_source == kThroughput && p.penalty_max_ms > 0 && p.throughput <= 0)
      return fail(Code::kBadRequest,
                  "parameter 'peakPrefillThroughput' must be above 0 with ttftSource " +
                      std::string(kThroughput));
    return std::make_unique<PrefixCacheAffinityFilter>(std::move(p));
  }

  explicit PrefixCacheAffinityFilter(Params params)
      : params_(std::move(params)), predicts_(params_.ttft_source == kPredictor) {}

  void wire(schedule::Wiring& wiring) override {
    using enum schedule::Need;
    matches_ = wiring.consumes<PrefixMatch>(params_.matches, kRequired);
    if (params_.penalty_max_ms <= 0) return;
    if (predicts_)
      predictions_ = wiring.consumes<LatencyPrediction>(params_.predictions, kRequired);
    else
      load_ = wiring.consumes<InFlightLoad>(params_.load, kRequired);
  }

  size_t filter(RequestContext& context, std::span<uint32_t> selected) const override {
    const auto matches = context.read(matches_);
    if (selected.size() <= 1 || params_.threshold <= 0 || matches.empty()) return selected.size();
    if (context.rng.uniform() < params_.exploration) return selected.size();
    const auto sticks = [&](uint32_t i) { return share(matches[i]) >= params_.threshold; };
    const auto sticky = static_cast<size_t>(std::ranges::count_if(selected, sticks));
    if (sticky == 0 || sticky == selected.size()) return selected.size();
    if (params_.penalty_max_ms > 0 && penalty(context, selected, sticks) > params_.penalty_max_ms)
      return selected.size();
    size_t kept = 0;
    for (const uint32_t i : selected)
      if (sticks(i)) selected[kept++] = i;
    return kept;
  }

 private:
  static double share(const PrefixMatch& match) {
    if (match.total_blocks <= 0) return 0;
    return match.match_blocks / static_cast<double>(match.total_blocks);
  }

  /// How much later the first token would come from the best endpoint that sticks than from the
  /// best of the rest, in milliseconds.
  double penalty(const RequestContext& context, std::span<const uint32_t> selected,
                 auto sticks) const {
    constexpr double kNever = std::numeric_limits<double>::max();
    double best_sticky = kNever;
    double best_rest = kNever;
    for (const uint32_t i : selected) {
      double& best = sticks(i) ? best_sticky : best_rest;
      best = std::min(best, ttft_ms(context, i));
    }
    return best_sticky - best_rest;
  }

  double ttft_ms(const RequestContext& context, uint32_t i) const {
    if (predicts_) {
      const auto predictions = context.read(predictions_);
      const bool known = !predictions.empty() && predictions[i].present;
      return known ? predictions[i].ttft : std::numeric_limits<double>::max();
    }
    const auto load = context.read(load_);
    return load.empty() ? 0 : static_cast<double>(load[i].tokens) / params_.throughput * 1000;
  }

  const Params params_;
  const bool predicts_;
  schedule::Consumed<PrefixMatch> matches_;
  schedule::Consumed<InFlightLoad> load_;
  schedule::Consumed<LatencyPrediction> predictions_;
};

}  // namespace

const plugin::Descriptor& prefix_cache_affinity_filter() {
  static const auto descriptor = plugin::describe<PrefixCacheAffinityFilter>(
      {.type = "prefix-cache-affinity-filter",
       .kind = "filter",
       .summary = "Keeps the endpoints that have most of the prompt cached, unless waiting for "
                  "them costs more than computing it elsewhere."},
      table());
  return descriptor;
}

}  // namespace llmd::plugins
