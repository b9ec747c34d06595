#pragma once

#include <cstdint>

/// Attribute value types shared between plugins (spec 02 §3.2). Keys are "Type/producer instance
/// name".
namespace llmd::schedule {

struct PrefixMatch {
  static constexpr const char* kKey = "PrefixCacheMatchInfoDataKey";
  double match_blocks = 0;   // tier-weighted where tiers are known
  int64_t total_blocks = 0;  // of the request, over all its prompts
  int64_t block_tokens = 0;
  int64_t cached_blocks = 0;  // unweighted
  bool operator==(const PrefixMatch&) const = default;
};

struct InFlightLoad {
  static constexpr const char* kKey = "InFlightLoadDataKey";
  int64_t tokens = 0;
  int64_t requests = 0;
};

struct UncachedTokens {
  static constexpr const char* kKey = "UncachedRequestTokensDataKey";
  int64_t tokens = 0;
};

/// Orders plugins that read the request's prompts after the one that provides them. The column is
/// never written: the data is in the request's view.
struct TokenizedPrompt {
  static constexpr const char* kKey = "TokenizedPrompt";
};

/// The numbers of core metrics that a plugin relies on. Columns are never written: the values are
/// in Candidate::metrics.
struct WaitingQueueSize {
  static constexpr const char* kKey = "WaitingQueueSize";
};
struct RunningRequestsSize {
  static constexpr const char* kKey = "RunningRequestsSize";
};
struct KvCacheUsage {
  static constexpr const char* kKey = "KVCacheUsagePercent";
};
inline constexpr const char* kCoreMetrics = "core-metrics-extractor";

}  // namespace llmd::schedule
