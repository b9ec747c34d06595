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
  /// `objective`, ttft or tpot, was missed.
  void violated(const plugin::Plugin& plugin, const schedule::RequestContext& context,
                std::string_view objective);

 private:
  static constexpr size_t kModelsMax = 1000;  // clients choose names

  void observe(metric::Family& family, const plugin::Plugin& plugin,
               const schedule::RequestContext& context, double seconds);

  metric::Family &ttft_, &tpot_, &ttft_took_, &tpot_took_, &violations_;
  metric::LabelGuard models_;
};

}  // namespace llmd::plugins
