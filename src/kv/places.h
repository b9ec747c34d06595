#pragma once

#include "base/check.h"
#include "kv/precise_index.h"

namespace llmd::kv {

/// Places as the numbers that Holding keeps.
inline uint32_t code_of(const Place& place) {
  CHECK(place.tier < Place::kTiersMax);
  CHECK(!place.group || *place.group <= Place::kGroupMax);
  const uint32_t group = place.group ? *place.group + 1u : 0u;
  return place.tier | uint32_t{place.speculative} << 4 | group << 5;
}

inline Place place_of(uint32_t code) {
  Place place{.tier = static_cast<uint8_t>(code & 15), .speculative = (code >> 4 & 1) != 0};
  if (const uint32_t group = code >> 5; group != 0) place.group = static_cast<uint8_t>(group - 1);
  return place;
}

}  // namespace llmd::kv
