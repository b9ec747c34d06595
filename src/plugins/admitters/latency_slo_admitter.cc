#include "slo.h"

#include "plugin/registry.h"
#include "schedule/attributes.h"
#include "schedule/interfaces.h"
#include "schedule/wiring.h"

namespace llmd::plugins {
namespace {

using schedule::LatencyPrediction;

/// An endpoint that uses less of its cache has just started or has nothing to do.
constexpr double kColdKvUsage = 0.02;

struct Params {
  std::string producer = "predicted-latency-producer";
};

const plugin::Params<Params>& table() {
  static const plugin::Params<Params> params = {
      plugin::field("latencyPredictionInfoProducerName", &Params::producer, "",
                    "Producer of the predictions."),
  };
  return params;
}

class LatencySloAdmitter final : public schedule::Admitter {
 public:
  LatencySloAdmitter(Params p, const plugin::Context&) : params_(std::move(p)) {}

  void wire(schedule::Wiring& wiring) override {
    predictions_ = wiring.consumes<LatencyPrediction>(params_.producer, schedule::Need::kRequired);
  }

  Status admit(schedule::RequestContext& context) const override {
    if (context.priority >= 0) return {};
    const Slo slo = Slo::of(context.headers);
    if (slo.ttft <= 0 && slo.tpot <= 0) return {};
    const auto predictions = context.read(predictions_);
    if (predictions.empty()) return {};
    bool known = false;
    for (size_t i = 0; i < predictions.size(); ++i) {
      const auto& p = predictions[i];
      const auto& metrics = context.candidates[i].metrics;
      if (p.present && p.ttft_valid && p.tpot_valid) return {};
      if (metrics.running_requests_size == 0 || metrics.kv_cache_usage < kColdKvUsage) return {};
      known |= p.present;
    }
    if (!known) return {};
    return fail(Code::kResourceExhausted,
                "no endpoint is expected to keep the latency objectives of this request",
                "rejected-saturated");
  }

 private:
  const Params params_;
  schedule::Consumed<LatencyPrediction> predictions_;
};

}  // namespace

const plugin::Descriptor& latency_slo_admitter() {
  static const auto descriptor = plugin::describe<LatencySloAdmitter>(
      {.type = "latency-slo-admitter",
       .kind = "admitter",
       .summary = "Refuses requests of negative priority whose latency objectives no endpoint is "
                  "expected to keep."},
      table());
  return descriptor;
}

}  // namespace llmd::plugins
