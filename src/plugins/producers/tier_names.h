#pragma once

#include "base/mutex.h"
#include "kv/precise_index.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace llmd::plugins {

/// What a block in a medium counts, by the medium's name in small letters.
struct TierWeight {
  std::string name;
  double weight = 1;
};

/// The numbers that media have in places of the precise index. Those that are not weighted count 1.
/// Threading: any.
class TierNames {
 public:
  /// All beyond share the last number.
  static constexpr size_t kNamedMax = kv::Place::kTiersMax - 1;

  /// Requires: at most kNamedMax weights.
  explicit TierNames(std::span<const TierWeight> weights);

  uint8_t number(std::string_view medium);
  /// What a block in the medium counts. Does not give it a number.
  double weight(std::string_view medium) const;
  /// "other" of the last number.
  std::string name(uint8_t number) const;
  const kv::TierWeights& weights() const { return weights_; }

 private:
  kv::TierWeights weights_;
  mutable Mutex mutex_;
  std::vector<std::string> names_ LLMD_GUARDED_BY(mutex_);
};

}  // namespace llmd::plugins
