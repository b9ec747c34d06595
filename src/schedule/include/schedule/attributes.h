#pragma once

#include <cstdint>

/// Attribute value types shared between plugins (spec 02 §3.2). Keys are "Type/producer instance name".
namespace llmd::schedule {

struct PrefixMatch {
  static constexpr const char* kKey = "PrefixCacheMatchInfoDataKey";
  double match_blocks = 0;        // tier-weighted where tiers are known
  int64_t total_blocks = 0;       // of the request, over all its prompts
  int64_t block_tokens = 0;
  int64_t cached_blocks = 0;      // unweighted
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

}  // namespace llmd::schedule
