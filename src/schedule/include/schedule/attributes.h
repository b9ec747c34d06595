#pragma once

#include <cstdint>
#include <string_view>

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

/// What an endpoint is expected to do with the request, in milliseconds. Headroom is how far a time
/// stays below its objective; negative: it is missed.
struct LatencyPrediction {
  static constexpr const char* kKey = "LatencyPredictionInfoDataKey";
  bool present = false;  // false: nothing is known about this endpoint
  bool ttft_valid = false;
  bool tpot_valid = false;
  double ttft_headroom = 0;
  double tpot_headroom = 0;
  double ttft = 0;
  double tpot = 0;
  int64_t dispatched = 0;  // requests that this router runs there
};

/// Values of the whole request.
struct Text {
  std::string_view value;
};
/// The candidate that another stage of the request runs on.
struct Peer {
  uint32_t candidate = 0;
};
inline constexpr const char* kPeerEndpoint = "peer-endpoint/disagg-profile-handler";
inline constexpr const char* kAgentIdentity = "agent-identity/";

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
struct ActiveModels {
  static constexpr const char* kKey = "ActiveModels";
};
struct WaitingModels {
  static constexpr const char* kKey = "WaitingModels";
};
inline constexpr const char* kCoreMetrics = "core-metrics-extractor";

}  // namespace llmd::schedule
