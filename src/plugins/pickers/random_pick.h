#pragma once

#include "base/rng.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

namespace llmd::plugins {

/// Puts `count` of `selected` in random order to the front of `picked`, each order equally likely.
/// Requires: count <= selected.size() == picked.size(), count > 0.
inline void pick_at_random(Rng& rng, std::span<const uint32_t> selected, std::span<uint32_t> picked,
                           size_t count) {
  if (count == 1) {
    picked[0] = selected[rng.below(selected.size())];
    return;
  }
  std::ranges::copy(selected, picked.begin());
  for (size_t i = 0; i < count; ++i) std::swap(picked[i], picked[i + rng.below(picked.size() - i)]);
}

}  // namespace llmd::plugins
