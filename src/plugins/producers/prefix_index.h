#pragma once

#include "base/mutex.h"
#include "fleet/endpoint.h"
#include "kv/approx_index.h"
#include "metric/registry.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace llmd::plugins {

/// The approximate index of one producer name, and its metrics. Outlives configurations.
/// Threading: any.
class PrefixIndex final : public fleet::MembershipListener {
 public:
  PrefixIndex(metric::Registry& registry, std::string_view plugin_name,
              std::string_view plugin_type);

  void on_added(const fleet::EndpointPtr& endpoint) override;
  void on_removed(const fleet::EndpointPtr& endpoint) override;

  /// Counts what the chosen endpoint is believed to hold of a request.
  void observe(int64_t match_blocks, int64_t total_blocks, int64_t block_tokens) const;

  /// {"pods": [{"pod", "blocks"}], "totalPods", "maxPods"}: how many blocks each endpoint holds,
  /// most first; those that hold none and those beyond the first maxPods are left out.
  std::string dump() const;

  kv::ApproxIndex index;

 private:
  struct Present {
    uint64_t generation = 0;
    std::string id;
  };

  mutable Mutex mutex_;
  std::map<uint32_t, Present> present_ LLMD_GUARDED_BY(mutex_);  // by slot
  metric::Histogram hit_bytes_;
  metric::Histogram hit_ratio_;
  metric::Gauge size_;
  std::shared_ptr<void> collector_;
};

}  // namespace llmd::plugins
