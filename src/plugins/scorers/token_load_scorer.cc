#include "plugin/registry.h"
#include "schedule/attributes.h"
#include "schedule/interfaces.h"
#include "schedule/wiring.h"

#include <algorithm>

namespace llmd::plugins {
namespace {

using schedule::InFlightLoad;
using schedule::UncachedTokens;

constexpr int64_t kDefaultThreshold = 4194304;

struct Params {
  int64_t threshold_tokens = kDefaultThreshold;
  std::string producer = "inflight-load-producer";
};

const plugin::Params<Params>& table() {
  static const plugin::Params<Params> params = {
      plugin::field("queueThresholdTokens", &Params::threshold_tokens, "tokens",
                    "Load from which on the score is 0; the default when 0 or less."),
      plugin::field("inFlightLoadProducerName", &Params::producer, "",
                    "Producer of the tokens in flight."),
  };
  return params;
}

class TokenLoadScorer final : public schedule::Scorer {
 public:
  TokenLoadScorer(Params p, const plugin::Context&)
      : threshold_(p.threshold_tokens > 0 ? p.threshold_tokens : kDefaultThreshold),
        producer_(std::move(p.producer)) {}

  void wire(schedule::Wiring& wiring) override {
    in_flight_ = wiring.consumes<InFlightLoad>(producer_, schedule::Need::kRequired);
    uncached_ = wiring.consumes<UncachedTokens>(producer_, schedule::Need::kOptional);
  }

  void score(schedule::RequestContext& context, std::span<const uint32_t> selected,
             std::span<double> scores) const override {
    const auto in_flight = context.read(in_flight_);
    const auto uncached = context.read(uncached_);
    const auto threshold = static_cast<double>(threshold_);
    for (size_t k = 0; k < selected.size(); ++k) {
      int64_t tokens = in_flight.empty() ? 0 : in_flight[selected[k]].tokens;
      tokens += uncached.empty() ? 0 : uncached[selected[k]].tokens;
      tokens = std::max<int64_t>(0, std::min(tokens, threshold_));
      scores[k] = 1 - static_cast<double>(tokens) / threshold;
    }
  }

 private:
  const int64_t threshold_;
  const std::string producer_;
  schedule::Consumed<InFlightLoad> in_flight_;
  schedule::Consumed<UncachedTokens> uncached_;
};

}  // namespace

const plugin::Descriptor& token_load_scorer() {
  static const auto descriptor = plugin::describe<TokenLoadScorer>(
      {.type = "token-load-scorer",
       .kind = "scorer",
       .summary = "Prefers the fewest tokens to prefill: those in flight plus what this request "
                  "would add."},
      table());
  return descriptor;
}

}  // namespace llmd::plugins
