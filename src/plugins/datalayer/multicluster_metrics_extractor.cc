#include "attribute_extractor.h"
#include "multicluster.h"

#include "plugin/registry.h"

#include <string>

namespace llmd::plugins {
namespace {

class MulticlusterMetricsExtractor final : public AttributeExtractor {
 public:
  MulticlusterMetricsExtractor()
      : AttributeExtractor({series(kPoolKvUsage, "llm_d_epp_average_kv_cache_utilization"),
                            series(kPoolQueueSize, "llm_d_epp_average_queue_size")}) {}

 private:
  static fleet::AttributeSeries series(std::string_view key, std::string_view family) {
    return {.key = std::string(key), .series = {.family = std::string(family), .labels = {}}};
  }
};

}  // namespace

const plugin::Descriptor& multicluster_metrics_extractor() {
  static const auto descriptor = plugin::describe<MulticlusterMetricsExtractor>(
      {.type = "multicluster-metrics-extractor",
       .kind = "extractor",
       .summary =
           "Reads what the picker of a whole cluster says of its pool: the average queue and "
           "the average KV cache in use, for the multicluster scorers.",
       .stability = plugin::Stability::kAlpha});
  return descriptor;
}

}  // namespace llmd::plugins
