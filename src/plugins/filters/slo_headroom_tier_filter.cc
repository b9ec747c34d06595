#include "plugin/registry.h"
#include "schedule/attributes.h"
#include "schedule/interfaces.h"
#include "schedule/wiring.h"

#include <algorithm>

namespace llmd::plugins {
namespace {

using schedule::LatencyPrediction;

struct Params {
  double explore_negative = 0.01;
  std::string producer = "predicted-latency-producer";
};

const plugin::Params<Params>& table() {
  static const plugin::Params<Params> params = {
      plugin::field("epsilonExploreNeg", &Params::explore_negative, "",
                    "Share of the requests that go to endpoints expected to miss an objective, "
                    "where others would keep it.")
          .min(0)
          .max(1),
      plugin::field("latencyPredictionInfoProducerName", &Params::producer, "",
                    "Producer of the predictions."),
  };
  return params;
}

class SloHeadroomTierFilter final : public schedule::Filter {
 public:
  SloHeadroomTierFilter(Params p, const plugin::Context&) : params_(std::move(p)) {}

  void wire(schedule::Wiring& wiring) override {
    predictions_ = wiring.consumes<LatencyPrediction>(params_.producer, schedule::Need::kRequired);
  }

  size_t filter(schedule::RequestContext& context, std::span<uint32_t> selected) const override {
    const auto predictions = context.read(predictions_);
    if (selected.size() <= 1 || predictions.empty()) return selected.size();
    const auto keeps = [&](uint32_t i) {
      const auto& p = predictions[i];
      return p.present && p.ttft_headroom >= 0 && p.tpot_headroom >= 0;
    };
    const auto keeping = static_cast<size_t>(std::ranges::count_if(selected, keeps));
    if (keeping == 0 || keeping == selected.size()) return selected.size();
    const bool explore = context.rng.uniform() < params_.explore_negative;
    size_t kept = 0;
    for (const uint32_t i : selected)
      if (keeps(i) != explore) selected[kept++] = i;
    return kept;
  }

 private:
  const Params params_;
  schedule::Consumed<LatencyPrediction> predictions_;
};

}  // namespace

const plugin::Descriptor& slo_headroom_tier_filter() {
  static const auto descriptor = plugin::describe<SloHeadroomTierFilter>(
      {.type = "slo-headroom-tier-filter",
       .kind = "filter",
       .summary = "Keeps the endpoints that are expected to keep the request's latency objectives, "
                  "where there are any."},
      table());
  return descriptor;
}

}  // namespace llmd::plugins
