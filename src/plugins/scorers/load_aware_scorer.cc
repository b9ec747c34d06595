#include "plugin/registry.h"
#include "schedule/interfaces.h"

#include <algorithm>

namespace llmd::plugins {
namespace {

constexpr int64_t kDefaultThreshold = 128;

struct Params {
  int64_t threshold = kDefaultThreshold;
};

const plugin::Params<Params>& table() {
  static const plugin::Params<Params> params = {
      plugin::field("threshold", &Params::threshold, "requests",
                    "Waiting requests from which on the score is 0; the default when 0 or less."),
  };
  return params;
}

class LoadAwareScorer final : public schedule::Scorer {
 public:
  LoadAwareScorer(Params p, const plugin::Context&)
      : threshold_(p.threshold > 0 ? p.threshold : kDefaultThreshold) {}

  void score(schedule::RequestContext& context, std::span<const uint32_t> selected,
             std::span<double> scores) const override {
    for (size_t k = 0; k < selected.size(); ++k) {
      const int64_t waiting = std::clamp<int64_t>(
          context.candidates[selected[k]].metrics.waiting_queue_size, 0, threshold_);
      scores[k] = 0.5 * (1 - static_cast<double>(waiting) / static_cast<double>(threshold_));
    }
  }

 private:
  const int64_t threshold_;
};

}  // namespace

const plugin::Descriptor& load_aware_scorer() {
  static const auto descriptor = plugin::describe<LoadAwareScorer>(
      {.type = "load-aware-scorer",
       .kind = "scorer",
       .summary = "Prefers short queues on an absolute scale: 0.5 for an empty one, 0 from the "
                  "threshold on."},
      table());
  return descriptor;
}

}  // namespace llmd::plugins
