#pragma once

#include "metric/registry.h"
#include "plugin/plugin.h"
#include "schedule/attributes.h"
#include "schedule/request_context.h"

#include <string_view>

namespace llmd::plugins {

/// The metrics of predicted latencies (spec 04 §2.7). Outlives configurations. Threading: any.
class LatencyProbe {
 public:
  explicit LatencyProbe(metric::Registry& registry);

  /// Predictions have come, after `took`.
  void predicted(const plugin::Plugin& plugin, const schedule::RequestContext& context, Nanos took);
  /// The request goes where this is expected.
  void chosen(const plugin::Plugin& plugin, const schedule::RequestContext& context,
              const schedule::LatencyPrediction& prediction);
  /// What a request took, in milliseconds; 0: not known.
  void took(const plugin::Plugin& plugin, const schedule::RequestContext& context, double ttft,
            double tpot);
  /// Whether `objective`, ttft or tpot, was missed.
  void judged(const plugin::Plugin& plugin, const schedule::RequestContext& context,
              std::string_view objective, bool missed);

 private:
  static constexpr size_t kModelsMax = 1000;  // clients choose names

  struct Models {
    std::string_view incoming, target;
  };
  Models models_of(const schedule::RequestContext& context);
  void observe(metric::Family& family, const plugin::Plugin& plugin,
               const schedule::RequestContext& context, double seconds);
  /// The last value of its kind, `type`.
  void show(const plugin::Plugin& plugin, const schedule::RequestContext& context,
            std::string_view type, double value);

  metric::Family &predicted_ttft_, &predicted_tpot_, &ttft_prediction_, &tpot_prediction_, &ttft_,
      &tpot_, &violations_, &last_;
  metric::LabelGuard models_;
};

}  // namespace llmd::plugins
