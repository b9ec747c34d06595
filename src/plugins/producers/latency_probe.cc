#include "latency_probe.h"

#include "metric/buckets.h"

#include <array>
#include <string>

namespace llmd::plugins {
namespace {

/// A family by plugin and model, and its twin by model alone.
metric::Definition by_model(std::string_view name, std::string_view twin, std::string_view help,
                            std::span<const double> buckets) {
  return {.name = name,
          .kind = metric::Kind::kHistogram,
          .help = help,
          .labels = {"plugin_name", "plugin_type", "model_name", "target_model_name"},
          .buckets = buckets,
          .twins = {{.name = twin,
                     .labels = {{"model_name", "model_name"},
                                {"target_model_name", "target_model_name"}}}}};
}

metric::Definition violations() {
  return {.name = "llm_d_epp_request_slo_violation_total",
          .kind = metric::Kind::kCounter,
          .help = "Requests that missed an objective that they named.",
          .labels = {"plugin_name", "plugin_type", "model_name", "target_model_name", "type"},
          .buckets = {},
          .twins = {{.name = "inference_objective_request_slo_violation_total",
                     .labels = {{"model_name", "model_name"},
                                {"target_model_name", "target_model_name"},
                                {"type", "type"}}}}};
}

}  // namespace

LatencyProbe::LatencyProbe(metric::Registry& registry)
    : ttft_(registry.family(by_model("llm_d_epp_request_predicted_ttft_seconds",
                                     "inference_objective_request_predicted_ttft_seconds",
                                     "Predicted time to the first token, of the chosen endpoint.",
                                     metric::buckets::kGen))),
      tpot_(registry.family(by_model("llm_d_epp_request_predicted_tpot_seconds",
                                     "inference_objective_request_predicted_tpot_seconds",
                                     "Predicted time per token, of the chosen endpoint.",
                                     metric::buckets::kPtpot))),
      ttft_took_(registry.family(
          by_model("llm_d_epp_request_ttft_prediction_duration_seconds",
                   "inference_objective_request_ttft_prediction_duration_seconds",
                   "How long requests waited for predictions of the time to the first token.",
                   metric::buckets::kPredLat))),
      tpot_took_(registry.family(
          by_model("llm_d_epp_request_tpot_prediction_duration_seconds",
                   "inference_objective_request_tpot_prediction_duration_seconds",
                   "How long requests waited for predictions of the time per token.",
                   metric::buckets::kPredLat))),
      violations_(registry.family(violations())),
      models_(kModelsMax) {}

void LatencyProbe::observe(metric::Family& family, const plugin::Plugin& plugin,
                           const schedule::RequestContext& context, double seconds) {
  const std::array<std::string_view, 4> labels = {
      plugin.name(), plugin.type(),
      models_.admit(context.request ? context.request->model : std::string_view{}),
      models_.admit(context.target_model)};
  family.histogram(labels).observe(seconds);
}

void LatencyProbe::predicted(const plugin::Plugin& plugin, const schedule::RequestContext& context,
                             Nanos took) {
  observe(ttft_took_, plugin, context, seconds(took));
  observe(tpot_took_, plugin, context, seconds(took));
}

void LatencyProbe::chosen(const plugin::Plugin& plugin, const schedule::RequestContext& context,
                          const schedule::LatencyPrediction& prediction) {
  observe(ttft_, plugin, context, prediction.ttft / 1000);
  observe(tpot_, plugin, context, prediction.tpot / 1000);
}

void LatencyProbe::violated(const plugin::Plugin& plugin, const schedule::RequestContext& context,
                            std::string_view objective) {
  const std::array<std::string_view, 5> labels = {
      plugin.name(), plugin.type(),
      models_.admit(context.request ? context.request->model : std::string_view{}),
      models_.admit(context.target_model), objective};
  violations_.counter(labels).add();
}

}  // namespace llmd::plugins
