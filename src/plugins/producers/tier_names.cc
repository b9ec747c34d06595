#include "tier_names.h"

#include "base/check.h"

#include <algorithm>

namespace llmd::plugins {

TierNames::TierNames(std::span<const TierWeight> weights) {
  CHECK(weights.size() <= kNamedMax);
  weights_.fill(1);
  for (const TierWeight& tier : weights) {
    weights_[names_.size()] = tier.weight;
    names_.push_back(tier.name);
  }
}

uint8_t TierNames::number(std::string_view medium) {
  const MutexLock lock(mutex_);
  auto at = std::ranges::find(names_, medium);
  if (at == names_.end()) {
    if (names_.size() == kNamedMax) return kNamedMax;
    at = names_.emplace(names_.end(), medium);
  }
  return static_cast<uint8_t>(at - names_.begin());
}

double TierNames::weight(std::string_view medium) const {
  const MutexLock lock(mutex_);
  const auto at = std::ranges::find(names_, medium);
  return at == names_.end() ? 1 : weights_[static_cast<size_t>(at - names_.begin())];
}

std::string TierNames::name(uint8_t number) const {
  const MutexLock lock(mutex_);
  return number < names_.size() ? names_[number] : "other";
}

}  // namespace llmd::plugins
