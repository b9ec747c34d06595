#include "plugin/registry.h"
#include "schedule/attributes.h"
#include "schedule/interfaces.h"
#include "schedule/wiring.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace llmd::plugins {
namespace {

using schedule::LatencyPrediction;
using schedule::PrefixMatch;
using schedule::RequestContext;

/// Ranges of headroom below this are no range.
constexpr double kFlat = 1e-9;

struct Params {
  double ttft_weight = 0.8;
  double tpot_weight = 0.2;
  std::string strategy = "least";
  double kv_weight = 1;
  double queue_weight = 1;
  double prefix_weight = 1;
  std::string predictions = "predicted-latency-producer";
  std::string matches = "approx-prefix-cache-producer";
};

const plugin::Params<Params>& table() {
  static const plugin::Params<Params> params = {
      plugin::field("ttftWeight", &Params::ttft_weight, "",
                    "Weight of the headroom of the time to the first token."),
      plugin::field("tpotWeight", &Params::tpot_weight, "",
                    "Weight of the headroom of the time per token."),
      plugin::field("headroomSelectionStrategy", &Params::strategy, "",
                    "Among endpoints that keep the objectives: least packs requests on those with "
                    "the least headroom, most spreads them; anything else means least."),
      plugin::field("compositeKVWeight", &Params::kv_weight, "",
                    "Without predictions: weight of the free KV cache."),
      plugin::field("compositeQueueWeight", &Params::queue_weight, "",
                    "Without predictions: weight of the short queue."),
      plugin::field("compositePrefixWeight", &Params::prefix_weight, "",
                    "Without predictions: weight of the prefix match."),
      plugin::field("latencyPredictionInfoProducerName", &Params::predictions, "",
                    "Producer of the predictions."),
      plugin::field("prefixMatchInfoProducerName", &Params::matches, "",
                    "Producer of the prefix matches."),
  };
  return params;
}

/// From the lowest to the highest of a number.
struct Span {
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();

  void include(double v) {
    min = std::min(min, v);
    max = std::max(max, v);
  }
  bool flat() const { return max - min <= kFlat; }
  double place(double v) const { return flat() ? 0.5 : (v - min) / (max - min); }
};

class LatencyScorer final : public schedule::Scorer {
 public:
  LatencyScorer(Params p, const plugin::Context&) : params_(std::move(p)) {}

  void wire(schedule::Wiring& wiring) override {
    predictions_ =
        wiring.consumes<LatencyPrediction>(params_.predictions, schedule::Need::kRequired);
    matches_ = wiring.consumes<PrefixMatch>(params_.matches, schedule::Need::kRequired);
  }

  void score(RequestContext& context, std::span<const uint32_t> selected,
             std::span<double> scores) const override {
    const auto predictions = context.read(predictions_);
    const auto known = [&](uint32_t i) { return !predictions.empty() && predictions[i].present; };
    if (std::ranges::none_of(selected, known)) return compose(context, selected, scores);
    // An endpoint without prediction counts as one without headroom.
    const auto all = context.arena.array<LatencyPrediction>(selected.size());
    for (size_t k = 0; k < selected.size(); ++k)
      if (known(selected[k])) all[k] = predictions[selected[k]];
    Tiers{all, scores, params_}.score();
  }

 private:
  /// Endpoints in tiers by what they are expected to keep; only those of the best tier that is not
  /// empty get a score.
  struct Tiers {
    std::span<const LatencyPrediction> all;
    std::span<double> scores;
    const Params& params;

    void score() const {
      const auto misses_ttft = [](const auto& p) { return p.ttft_headroom < 0; };
      const auto misses_tpot = [](const auto& p) { return p.tpot_headroom < 0; };
      const auto misses = [&](const auto& p) { return misses_ttft(p) || misses_tpot(p); };
      const bool most = params.strategy == "most";
      if (rate([&](const auto& p) { return !misses(p); }, most)) return;
      if (rate([&](const auto& p) { return misses(p) && p.dispatched == 0; }, false)) return;
      if (rate([&](const auto& p) { return !misses_ttft(p); }, false)) return;
      if (rate([&](const auto& p) { return !misses_tpot(p); }, false)) return;
      rate([](const auto&) { return true; }, false);
    }

    /// Rates the members against each other; false when there are none.
    template <class Belongs>
    bool rate(Belongs belongs, bool most) const {
      Span ttft;
      Span tpot;
      for (const auto& p : all)
        if (belongs(p)) {
          ttft.include(std::abs(p.ttft_headroom));
          tpot.include(std::abs(p.tpot_headroom));
        }
      if (ttft.min > ttft.max) return false;
      const auto [alpha, beta] = weights(ttft, tpot);
      for (size_t k = 0; k < all.size(); ++k) {
        if (!belongs(all[k])) continue;
        const double far = alpha * ttft.place(std::abs(all[k].ttft_headroom)) +
                           beta * tpot.place(std::abs(all[k].tpot_headroom));
        scores[k] = (std::trunc((most ? far : 1 - far) * 100) + 1) / 100;
      }
      return true;
    }

    std::pair<double, double> weights(const Span& ttft, const Span& tpot) const {
      if (ttft.flat() && !tpot.flat()) return {0, 1};
      if (tpot.flat() && !ttft.flat()) return {1, 0};
      const double sum = params.ttft_weight + params.tpot_weight;
      if (sum <= 0) return {1, 0};
      return {params.ttft_weight / sum, params.tpot_weight / sum};
    }
  };

  /// Without predictions: free cache, short queue and prefix match, weighted.
  void compose(const RequestContext& context, std::span<const uint32_t> selected,
               std::span<double> scores) const {
    const auto matches = context.read(matches_);
    int64_t longest = 0;
    for (const uint32_t i : selected)
      longest = std::max(longest, context.candidates[i].metrics.waiting_queue_size);
    const double sum = params_.kv_weight + params_.queue_weight + params_.prefix_weight;
    const bool weighed = sum > 0;
    for (size_t k = 0; k < selected.size(); ++k) {
      const auto& metrics = context.candidates[selected[k]].metrics;
      const double queue = longest == 0
                               ? 1
                               : static_cast<double>(longest - metrics.waiting_queue_size) /
                                     static_cast<double>(longest);
      const double prefix = matches.empty() ? 0 : share(matches[selected[k]]);
      const double score = weighed ? params_.kv_weight / sum * (1 - metrics.kv_cache_usage) +
                                         params_.queue_weight / sum * queue +
                                         params_.prefix_weight / sum * prefix
                                   : 1 - metrics.kv_cache_usage;
      scores[k] = std::round(100 * score) / 100;
    }
  }

  static double share(const PrefixMatch& match) {
    if (match.total_blocks <= 0) return 0;
    return match.match_blocks / static_cast<double>(match.total_blocks);
  }

  const Params params_;
  schedule::Consumed<LatencyPrediction> predictions_;
  schedule::Consumed<PrefixMatch> matches_;
};

}  // namespace

const plugin::Descriptor& latency_scorer() {
  static const auto descriptor = plugin::describe<LatencyScorer>(
      {.type = "latency-scorer",
       .kind = "scorer",
       .summary = "Rates endpoints by how far their predicted latency stays below the request's "
                  "objectives; without predictions by cache, queue and prefix."},
      table());
  return descriptor;
}

}  // namespace llmd::plugins
