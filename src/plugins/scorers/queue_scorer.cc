#include "min_max.h"

#include "plugin/registry.h"
#include "schedule/attributes.h"
#include "schedule/wiring.h"

namespace llmd::plugins {
namespace {

class QueueScorer final : public schedule::Scorer {
 public:
  void wire(schedule::Wiring& wiring) override {
    wiring.consumes<schedule::WaitingQueueSize>(schedule::kCoreMetrics, schedule::Need::kRequired);
  }

  void score(schedule::RequestContext& context, std::span<const uint32_t> selected,
             std::span<double> scores) const override {
    score_lowest_best(context, selected, scores,
                      [](const schedule::Candidate& c) { return c.metrics.waiting_queue_size; });
  }
};

}  // namespace

const plugin::Descriptor& queue_scorer() {
  static const auto descriptor = plugin::describe<QueueScorer>(
      {.type = "queue-scorer",
       .kind = "scorer",
       .summary = "Prefers the shortest waiting queue: 1 for the shortest, 0 for the longest.",
       .ignores_parameters = true});
  return descriptor;
}

}  // namespace llmd::plugins
