#include "kv_events/event.h"

#include <algorithm>
#include <array>

namespace llmd::kv_events {
namespace {

constexpr std::array<std::string_view, 11> kNames = {"",
                                                     "full_attention",
                                                     "mla_attention",
                                                     "sink_full_attention",
                                                     "sliding_window",
                                                     "sliding_window_mla",
                                                     "mamba",
                                                     "chunked_local_attention",
                                                     "encoder_only_attention",
                                                     "cross_attention",
                                                     "unknown"};

}  // namespace

CacheKind cache_kind(std::string_view name) {
  const auto at = std::ranges::find(kNames.begin() + 1, kNames.end() - 1, name);
  return static_cast<CacheKind>(at - kNames.begin());
}

std::string_view cache_kind_name(CacheKind kind) {
  return kNames[static_cast<size_t>(kind)];
}

}  // namespace llmd::kv_events
