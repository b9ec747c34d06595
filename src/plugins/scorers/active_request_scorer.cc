#include "plugin/ignored_param.h"
#include "plugin/registry.h"
#include "schedule/attributes.h"
#include "schedule/interfaces.h"
#include "schedule/wiring.h"

#include <algorithm>

namespace llmd::plugins {
namespace {

using schedule::InFlightLoad;

struct Params {
  int64_t idle_threshold = 0;
  double max_busy_score = 1;
  std::string producer = "inflight-load-producer";
};

const plugin::Params<Params>& table() {
  static const plugin::Params<Params> params = {
      plugin::field("idleThreshold", &Params::idle_threshold, "requests",
                    "Up to so many requests in flight an endpoint is idle and scores 1; negative "
                    "counts as 0."),
      plugin::field("maxBusyScore", &Params::max_busy_score, "",
                    "Upper end of the scores of busy endpoints; 1 when outside 0 to 1."),
      plugin::field("inFlightLoadProducerName", &Params::producer, "",
                    "Producer of the requests in flight."),
      plugin::ignored<Params, std::string>("requestTimeout"),
  };
  return params;
}

class ActiveRequestScorer final : public schedule::Scorer {
 public:
  ActiveRequestScorer(Params p, const plugin::Context&)
      : idle_threshold_(std::max<int64_t>(p.idle_threshold, 0)),
        max_busy_score_(p.max_busy_score >= 0 && p.max_busy_score <= 1 ? p.max_busy_score : 1),
        producer_(std::move(p.producer)) {}

  void wire(schedule::Wiring& wiring) override {
    in_flight_ = wiring.consumes<InFlightLoad>(producer_, schedule::Need::kRequired);
  }

  void score(schedule::RequestContext& context, std::span<const uint32_t> selected,
             std::span<double> scores) const override {
    const auto in_flight = context.read(in_flight_);
    if (in_flight.empty()) {
      std::ranges::fill(scores, 1.0);
      return;
    }
    int64_t most = 0;
    for (const uint32_t i : selected) most = std::max(most, in_flight[i].requests);
    for (size_t k = 0; k < selected.size(); ++k) {
      const int64_t requests = in_flight[selected[k]].requests;
      scores[k] = requests <= idle_threshold_ ? 1
                                              : static_cast<double>(most - requests) /
                                                    static_cast<double>(most) * max_busy_score_;
    }
  }

 private:
  const int64_t idle_threshold_;
  const double max_busy_score_;
  const std::string producer_;
  schedule::Consumed<InFlightLoad> in_flight_;
};

}  // namespace

const plugin::Descriptor& active_request_scorer() {
  static const auto descriptor = plugin::describe<ActiveRequestScorer>(
      {.type = "active-request-scorer",
       .kind = "scorer",
       .summary = "Prefers the fewest requests in flight: 1 when idle, 0 for the busiest."},
      table());
  return descriptor;
}

}  // namespace llmd::plugins
