#include "plugin/registry.h"
#include "schedule/attributes.h"
#include "schedule/interfaces.h"
#include "schedule/wiring.h"

namespace llmd::plugins {
namespace {

class LoraAffinityScorer final : public schedule::Scorer {
 public:
  void wire(schedule::Wiring& wiring) override {
    wiring.consumes<schedule::ActiveModels>(schedule::kCoreMetrics, schedule::Need::kRequired);
    wiring.consumes<schedule::WaitingModels>(schedule::kCoreMetrics, schedule::Need::kRequired);
  }

  void score(schedule::RequestContext& context, std::span<const uint32_t> selected,
             std::span<double> scores) const override {
    const uint64_t model = fleet::detail_key(context.target_model);
    for (size_t k = 0; k < selected.size(); ++k)
      scores[k] = rate(context.candidates[selected[k]], model);
  }

 private:
  static double rate(const schedule::Candidate& candidate, uint64_t model) {
    const auto adapter = candidate.endpoint->details.digest().adapter(model);
    if (adapter.running) return 1;
    if (static_cast<int64_t>(adapter.listed) < candidate.metrics.max_active_models) return 0.8;
    return adapter.waiting ? 0.6 : 0;
  }
};

}  // namespace

const plugin::Descriptor& lora_affinity_scorer() {
  static const auto descriptor = plugin::describe<LoraAffinityScorer>(
      {.type = "lora-affinity-scorer",
       .kind = "scorer",
       .summary = "Prefers endpoints that run the request's LoRA adapter (1), then those with room "
                  "for one more (0.8), then those where it waits to be loaded (0.6).",
       .ignores_parameters = true});
  return descriptor;
}

}  // namespace llmd::plugins
