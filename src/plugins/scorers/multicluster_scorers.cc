#include "datalayer/multicluster.h"
#include "plugin/registry.h"
#include "schedule/interfaces.h"

#include <algorithm>
#include <limits>

namespace llmd::plugins {
namespace {

/// The pool's number of each candidate in place of its score; NaN for those without it.
void read_numbers(const schedule::RequestContext& context, uint64_t key,
                  std::span<const uint32_t> selected, std::span<double> scores) {
  for (size_t k = 0; k < selected.size(); ++k)
    scores[k] = context.candidates[selected[k]].endpoint->details.digest().attribute(key).value_or(
        std::numeric_limits<double>::quiet_NaN());
}

class MulticlusterQueueScorer final : public schedule::Scorer {
 public:
  void score(schedule::RequestContext& context, std::span<const uint32_t> selected,
             std::span<double> scores) const override {
    read_numbers(context, key_, selected, scores);
    // A NaN compares as neither, and counts as 0 in the end.
    double lowest = std::numeric_limits<double>::infinity();
    double highest = -lowest;
    for (const double size : scores) {
      if (size < lowest) lowest = size;
      if (size > highest) highest = size;
    }
    const double range = highest - lowest;
    for (double& score : scores)
      if (score == score) score = range > 0 ? (highest - score) / range : 1;
  }

 private:
  const uint64_t key_ = fleet::detail_key(kPoolQueueSize);
};

class MulticlusterKvCacheUtilizationScorer final : public schedule::Scorer {
 public:
  void score(schedule::RequestContext& context, std::span<const uint32_t> selected,
             std::span<double> scores) const override {
    read_numbers(context, key_, selected, scores);
    for (double& score : scores) score = 1 - score;
  }

 private:
  const uint64_t key_ = fleet::detail_key(kPoolKvUsage);
};

}  // namespace

const plugin::Descriptor& multicluster_queue_scorer() {
  static const auto descriptor = plugin::describe<MulticlusterQueueScorer>(
      {.type = "multicluster-queue-scorer",
       .kind = "scorer",
       .summary = "Prefers clusters with the shortest average queue: 1 for the shortest, 0 for the "
                  "longest.",
       .stability = plugin::Stability::kAlpha});
  return descriptor;
}

const plugin::Descriptor& multicluster_kv_cache_utilization_scorer() {
  static const auto descriptor = plugin::describe<MulticlusterKvCacheUtilizationScorer>(
      {.type = "multicluster-kv-cache-utilization-scorer",
       .kind = "scorer",
       .summary = "Prefers clusters with free KV cache: 1 minus the average fraction in use.",
       .stability = plugin::Stability::kAlpha});
  return descriptor;
}

}  // namespace llmd::plugins
