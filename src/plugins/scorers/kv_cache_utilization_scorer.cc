#include "plugin/registry.h"
#include "schedule/attributes.h"
#include "schedule/interfaces.h"
#include "schedule/wiring.h"

namespace llmd::plugins {
namespace {

class KvCacheUtilizationScorer final : public schedule::Scorer {
 public:
  void wire(schedule::Wiring& wiring) override {
    wiring.consumes<schedule::KvCacheUsage>(schedule::kCoreMetrics, schedule::Need::kRequired);
  }

  void score(schedule::RequestContext& context, std::span<const uint32_t> selected,
             std::span<double> scores) const override {
    for (size_t k = 0; k < selected.size(); ++k)
      scores[k] = 1 - context.candidates[selected[k]].metrics.kv_cache_usage;
  }
};

}  // namespace

const plugin::Descriptor& kv_cache_utilization_scorer() {
  static const auto descriptor = plugin::describe<KvCacheUtilizationScorer>(
      {.type = "kv-cache-utilization-scorer",
       .kind = "scorer",
       .summary = "Prefers free KV cache: 1 minus the fraction in use.",
       .ignores_parameters = true});
  return descriptor;
}

}  // namespace llmd::plugins
