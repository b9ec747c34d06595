#pragma once

#include "fleet/endpoint.h"
#include "kv/approx_index.h"
#include "metric/registry.h"

#include <memory>
#include <string_view>

namespace llmd::plugins {

/// The approximate index of one producer name, and its metrics. Outlives configurations.
/// Threading: any.
class PrefixIndex final : public fleet::MembershipListener {
 public:
  PrefixIndex(metric::Registry& registry, std::string_view plugin_name,
              std::string_view plugin_type);

  void on_removed(const fleet::EndpointPtr& endpoint) override {
    index.purge(endpoint->slot(), endpoint->generation());
  }

  /// Counts what the chosen endpoint is believed to hold of a request.
  void observe(int64_t match_blocks, int64_t total_blocks, int64_t block_tokens) const;

  kv::ApproxIndex index;

 private:
  metric::Histogram hit_bytes_;
  metric::Histogram hit_ratio_;
  metric::Gauge size_;
  std::shared_ptr<void> collector_;
};

}  // namespace llmd::plugins
