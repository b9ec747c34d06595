#pragma once

#include <string_view>

namespace llmd::plugins {

/// What the picker of a whole cluster says of its pool, by full attribute key.
inline constexpr std::string_view kPoolQueueSize = "llm-d.ai/multicluster-queue-size/";
inline constexpr std::string_view kPoolKvUsage = "llm-d.ai/multicluster-kv-cache-utilization/";

}  // namespace llmd::plugins
