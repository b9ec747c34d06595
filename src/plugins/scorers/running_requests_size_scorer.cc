#include "min_max.h"

#include "plugin/registry.h"
#include "schedule/attributes.h"
#include "schedule/wiring.h"

namespace llmd::plugins {
namespace {

class RunningRequestsSizeScorer final : public schedule::Scorer {
 public:
  void wire(schedule::Wiring& wiring) override {
    wiring.consumes<schedule::RunningRequestsSize>(schedule::kCoreMetrics,
                                                   schedule::Need::kRequired);
  }

  void score(schedule::RequestContext& context, std::span<const uint32_t> selected,
             std::span<double> scores) const override {
    score_lowest_best(context, selected, scores,
                      [](const schedule::Candidate& c) { return c.metrics.running_requests_size; });
  }
};

}  // namespace

const plugin::Descriptor& running_requests_size_scorer() {
  static const auto descriptor = plugin::describe<RunningRequestsSizeScorer>(
      {.type = "running-requests-size-scorer",
       .kind = "scorer",
       .summary = "Prefers the fewest running requests: 1 for the fewest, 0 for the most.",
       .ignores_parameters = true});
  return descriptor;
}

}  // namespace llmd::plugins
