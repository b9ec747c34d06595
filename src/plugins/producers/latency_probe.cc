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

/// The same with what kind of value it is.
metric::Definition by_type(metric::Kind kind, std::string_view name, std::string_view twin,
                           std::string_view help) {
  return {.name = name,
          .kind = kind,
          .help = help,
          .labels = {"plugin_name", "plugin_type", "model_name", "target_model_name", "type"},
          .buckets = {},
          .twins = {{.name = twin,
                     .labels = {{"model_name", "model_name"},
                                {"target_model_name", "target_model_name"},
                                {"type", "type"}}}}};
}

/// Only the old name is left of these: the new one means every request's, by another family.
metric::Definition old_by_model(std::string_view name, std::string_view help,
                                std::span<const double> buckets) {
  return {.name = name,
          .kind = metric::Kind::kHistogram,
          .help = help,
          .labels = {"model_name", "target_model_name"},
          .buckets = buckets,
          .twins = {}};
}

}  // namespace

LatencyProbe::LatencyProbe(metric::Registry& registry)
    : predicted_ttft_(registry.family(by_model(
          "llm_d_epp_request_predicted_ttft_seconds",
          "inference_objective_request_predicted_ttft_seconds",
          "Predicted time to the first token, of the chosen endpoint.", metric::buckets::kGen))),
      predicted_tpot_(registry.family(by_model("llm_d_epp_request_predicted_tpot_seconds",
                                               "inference_objective_request_predicted_tpot_seconds",
                                               "Predicted time per token, of the chosen endpoint.",
                                               metric::buckets::kPtpot))),
      ttft_prediction_(registry.family(
          by_model("llm_d_epp_request_ttft_prediction_duration_seconds",
                   "inference_objective_request_ttft_prediction_duration_seconds",
                   "How long requests waited for predictions of the time to the first token.",
                   metric::buckets::kPredLat))),
      tpot_prediction_(registry.family(
          by_model("llm_d_epp_request_tpot_prediction_duration_seconds",
                   "inference_objective_request_tpot_prediction_duration_seconds",
                   "How long requests waited for predictions of the time per token.",
                   metric::buckets::kPredLat))),
      ttft_(registry.family(old_by_model("inference_objective_request_ttft_seconds",
                                         "Time to the first token of requests with predictions.",
                                         metric::buckets::kGen))),
      tpot_(registry.family(old_by_model("inference_objective_request_tpot_seconds",
                                         "Time per token of requests with predictions.",
                                         metric::buckets::kPtpot))),
      violations_(
          registry.family(by_type(metric::Kind::kCounter, "llm_d_epp_request_slo_violation_total",
                                  "inference_objective_request_slo_violation_total",
                                  "Requests that missed an objective that they named."))),
      last_(registry.family(by_type(
          metric::Kind::kGauge, "llm_d_epp_inference_request_metric",
          "inference_objective_inference_request_metric",
          "Of the last request with predictions: times in seconds, and objectives missed (1)."))),
      models_(kModelsMax) {}

LatencyProbe::Models LatencyProbe::models_of(const schedule::RequestContext& context) {
  return {models_.admit(context.request ? context.request->model : std::string_view{}),
          models_.admit(context.target_model)};
}

void LatencyProbe::observe(metric::Family& family, const plugin::Plugin& plugin,
                           const schedule::RequestContext& context, double seconds) {
  const Models models = models_of(context);
  const std::array<std::string_view, 4> labels = {plugin.name(), plugin.type(), models.incoming,
                                                  models.target};
  family.histogram(labels).observe(seconds);
}

void LatencyProbe::show(const plugin::Plugin& plugin, const schedule::RequestContext& context,
                        std::string_view type, double value) {
  const Models models = models_of(context);
  const std::array<std::string_view, 5> labels = {plugin.name(), plugin.type(), models.incoming,
                                                  models.target, type};
  last_.gauge(labels).set(value);
}

void LatencyProbe::predicted(const plugin::Plugin& plugin, const schedule::RequestContext& context,
                             Nanos took) {
  observe(ttft_prediction_, plugin, context, seconds(took));
  observe(tpot_prediction_, plugin, context, seconds(took));
  show(plugin, context, "ttft_prediction_duration", seconds(took));
  show(plugin, context, "tpot_prediction_duration", seconds(took));
}

void LatencyProbe::chosen(const plugin::Plugin& plugin, const schedule::RequestContext& context,
                          const schedule::LatencyPrediction& prediction) {
  observe(predicted_ttft_, plugin, context, prediction.ttft / 1000);
  observe(predicted_tpot_, plugin, context, prediction.tpot / 1000);
  show(plugin, context, "predicted_ttft", prediction.ttft / 1000);
  show(plugin, context, "predicted_tpot", prediction.tpot / 1000);
}

void LatencyProbe::took(const plugin::Plugin& plugin, const schedule::RequestContext& context,
                        double ttft, double tpot) {
  const Models models = models_of(context);
  const std::array<std::string_view, 2> labels = {models.incoming, models.target};
  const auto tell = [&](metric::Family& family, std::string_view type, double ms) {
    if (ms <= 0) return;
    family.histogram(labels).observe(ms / 1000);
    show(plugin, context, type, ms / 1000);
  };
  tell(ttft_, "ttft", ttft);
  tell(tpot_, "tpot", tpot);
}

void LatencyProbe::judged(const plugin::Plugin& plugin, const schedule::RequestContext& context,
                          std::string_view objective, bool missed) {
  show(plugin, context, std::string(objective) + "_slo_violation", missed ? 1 : 0);
  if (!missed) return;
  const Models models = models_of(context);
  const std::array<std::string_view, 5> labels = {plugin.name(), plugin.type(), models.incoming,
                                                  models.target, objective};
  violations_.counter(labels).add();
}

}  // namespace llmd::plugins
