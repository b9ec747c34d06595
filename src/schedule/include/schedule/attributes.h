#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

/// Attribute value types shared between plugins (spec 02 §3.2). Keys are "Type/producer instance
/// name".
namespace llmd::schedule {

/// Blocks of the prompts that an endpoint has by tier: from the start without a gap in that tier.
struct TierBlocks {
  /// That of blocks which an engine is expected to have, whatever their medium.
  static constexpr std::string_view kSpeculative = "speculative";
  struct Tier {
    std::string_view name;  // of the medium, in small letters
    int64_t blocks = 0;     // more than 0
  };
  std::span<const Tier> tiers;

  int64_t in(std::string_view tier) const {
    const auto at = std::ranges::find(tiers, tier, &Tier::name);
    return at == tiers.end() ? 0 : at->blocks;
  }
};

/// What a producer that hears of every block knows more of those that are cached.
struct CachedBlocks {
  TierBlocks by_tier;
  /// Those with a part of an image, audio or video; absent without such or when there are several
  /// prompts.
  std::optional<int64_t> media;
};

struct PrefixMatch {
  static constexpr const char* kKey = "PrefixCacheMatchInfoDataKey";
  double match_blocks = 0;   // tier-weighted where tiers are known
  int64_t total_blocks = 0;  // of the request, over all its prompts
  int64_t block_tokens = 0;
  int64_t cached_blocks = 0;             // unweighted
  const CachedBlocks* cached = nullptr;  // of the request's arena; null: no more is known
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
