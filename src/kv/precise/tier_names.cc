#include "kv_precise/tier_names.h"

#include "base/check.h"

#include <algorithm>

namespace llmd::kv_precise {

TierNames::TierNames(std::span<const TierWeight> weights) {
  CHECK(weights.size() <= kNamedMax);
  weights_.fill(1);
  for (size_t i = 0; i < weights.size(); ++i) {
    weights_[i] = weights[i].weight;
    names_[i] = weights[i].name;
  }
  named_ = weights.size();
}

std::optional<uint8_t> TierNames::find(std::string_view medium) const {
  const auto known = names();
  const auto at = std::ranges::find(known, medium);
  if (at == known.end()) return std::nullopt;
  return static_cast<uint8_t>(at - known.begin());
}

uint8_t TierNames::number(std::string_view medium) {
  if (const auto known = find(medium)) return *known;
  const MutexLock lock(mutex_);
  if (const auto known = find(medium)) return *known;
  const size_t next = names().size();
  if (next == kNamedMax) return kNamedMax;
  names_[next] = medium;
  named_.store(next + 1, std::memory_order_release);
  return static_cast<uint8_t>(next);
}

double TierNames::weight(std::string_view medium) const {
  const auto known = find(medium);
  return known ? weights_[*known] : 1;
}

std::string_view TierNames::name(uint8_t number) const {
  const auto known = names();
  return number < known.size() ? known[number] : std::string_view("other");
}

}  // namespace llmd::kv_precise
