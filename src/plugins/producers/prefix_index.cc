#include "prefix_index.h"

#include "base/text.h"
#include "metric/buckets.h"

#include <algorithm>
#include <array>
#include <functional>
#include <utility>
#include <vector>

namespace llmd::plugins {
namespace {

using metric::Kind;

constexpr int64_t kTokenBytes = 4;
constexpr size_t kDumpMax = 100;

const metric::Definition kHitBytes = {.name = "llm_d_epp_prefix_indexer_hit_bytes",
                                      .kind = Kind::kHistogram,
                                      .help =
                                          "Bytes of the prompt that the chosen endpoint is "
                                          "believed to hold.",
                                      .labels = {"plugin_name", "plugin_type"},
                                      .buckets = metric::buckets::kHitb,
                                      .twins = {{"inference_extension_prefix_indexer_hit_bytes"}}};
const metric::Definition kHitRatio = {.name = "llm_d_epp_prefix_indexer_hit_ratio",
                                      .kind = Kind::kHistogram,
                                      .help =
                                          "Share of the prompt that the chosen endpoint is "
                                          "believed to hold.",
                                      .labels = {"plugin_name", "plugin_type"},
                                      .buckets = metric::buckets::kHitr,
                                      .twins = {{"inference_extension_prefix_indexer_hit_ratio"}}};
const metric::Definition kSize = {.name = "llm_d_epp_prefix_indexer_size",
                                  .kind = Kind::kGauge,
                                  .help = "Blocks in the index, summed over endpoints.",
                                  .labels = {"plugin_name", "plugin_type"},
                                  .buckets = {},
                                  .twins = {{"inference_extension_prefix_indexer_size"}}};

}  // namespace

PrefixIndex::PrefixIndex(metric::Registry& registry, std::string_view plugin_name,
                         std::string_view plugin_type) {
  const std::array<std::string_view, 2> labels = {plugin_name, plugin_type};
  hit_bytes_ = registry.family(kHitBytes).histogram(labels);
  hit_ratio_ = registry.family(kHitRatio).histogram(labels);
  size_ = registry.family(kSize).gauge(labels);
  collector_ = registry.on_collect([this] { size_.set(static_cast<double>(index.size())); });
}

void PrefixIndex::on_added(const fleet::EndpointPtr& endpoint) {
  const MutexLock lock(mutex_);
  present_[endpoint->slot()] = {endpoint->generation(), endpoint->id()};
}

void PrefixIndex::on_removed(const fleet::EndpointPtr& endpoint) {
  index.purge(endpoint->slot(), endpoint->generation());
  const MutexLock lock(mutex_);
  const auto at = present_.find(endpoint->slot());
  if (at != present_.end() && at->second.generation == endpoint->generation()) present_.erase(at);
}

std::string PrefixIndex::dump() const {
  std::vector<std::pair<size_t, std::string>> pods;
  {
    const MutexLock lock(mutex_);
    for (const auto& [slot, endpoint] : present_)
      if (const size_t blocks = index.blocks_of(slot, endpoint.generation); blocks > 0)
        pods.emplace_back(blocks, endpoint.id);
  }
  std::ranges::stable_sort(pods, std::ranges::greater(), [](const auto& pod) { return pod.first; });
  std::string out = R"({"pods":[)";
  for (size_t i = 0; i < std::min(pods.size(), kDumpMax); ++i) {
    out += i > 0 ? R"(,{"pod":")" : R"({"pod":")";
    append_json_escaped(out, pods[i].second);
    out += R"(","blocks":)" + std::to_string(pods[i].first) + "}";
  }
  return out + R"(],"totalPods":)" + std::to_string(pods.size()) + R"(,"maxPods":)" +
         std::to_string(kDumpMax) + "}";
}

void PrefixIndex::observe(int64_t match_blocks, int64_t total_blocks, int64_t block_tokens) const {
  hit_bytes_.observe(static_cast<double>(match_blocks * block_tokens * kTokenBytes));
  if (total_blocks > 0)
    hit_ratio_.observe(static_cast<double>(match_blocks) / static_cast<double>(total_blocks));
}

}  // namespace llmd::plugins
