#pragma once

#include "base/mutex.h"
#include "kv/precise_index.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace llmd::kv_precise {

/// What a block in a medium counts, by the medium's name in small letters.
struct TierWeight {
  std::string name;
  double weight = 1;
};

/// The numbers that media have in places of the precise index. Those that are not weighted count 1.
/// Threading: any; only a new medium is waited for.
class TierNames {
 public:
  /// All beyond share the last number.
  static constexpr size_t kNamedMax = kv::Place::kTiersMax - 1;

  /// Requires: at most kNamedMax weights.
  explicit TierNames(std::span<const TierWeight> weights);

  uint8_t number(std::string_view medium);
  /// What a block in the medium counts. Does not give it a number.
  double weight(std::string_view medium) const;
  /// "other" of the last number. Lives as long as this.
  std::string_view name(uint8_t number) const;
  const kv::TierWeights& weights() const { return weights_; }

 private:
  std::optional<uint8_t> find(std::string_view medium) const;
  std::span<const std::string> names() const {
    return std::span(names_).first(named_.load(std::memory_order_acquire));
  }

  kv::TierWeights weights_;
  Mutex mutex_;  // of those that add a name
  std::array<std::string, kNamedMax> names_;
  std::atomic<size_t> named_{0};  // names that do not change any more
};

}  // namespace llmd::kv_precise
