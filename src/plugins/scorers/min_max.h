#pragma once

#include "schedule/interfaces.h"

#include <algorithm>
#include <cstdint>
#include <span>

namespace llmd::plugins {

/// Rates each candidate by where `value(candidate)` lies between the selection's lowest (score 1)
/// and highest (score 0); 1 for all when those are equal (spec 02 §8). Requires: `selected` is not
/// empty.
template <class Value>
void score_lowest_best(const schedule::RequestContext& context, std::span<const uint32_t> selected,
                       std::span<double> scores, Value value) {
  int64_t lowest = INT64_MAX;
  int64_t highest = INT64_MIN;
  for (const uint32_t i : selected) {
    const int64_t v = value(context.candidates[i]);
    lowest = std::min(lowest, v);
    highest = std::max(highest, v);
  }
  if (lowest == highest) {
    std::ranges::fill(scores, 1.0);
    return;
  }
  const double range = static_cast<double>(highest) - static_cast<double>(lowest);
  for (size_t k = 0; k < selected.size(); ++k) {
    const int64_t v = value(context.candidates[selected[k]]);
    scores[k] = (static_cast<double>(highest) - static_cast<double>(v)) / range;
  }
}

}  // namespace llmd::plugins
