#pragma once

#include <cstdint>
#include <string_view>

namespace llmd::plugins {

/// FNV-1a in 32 bits.
inline uint32_t fnv1a_32(std::string_view text) {
  uint32_t hash = 2166136261u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return hash;
}

/// A number in [0, 1) that follows from the id alone. FNV-1a leaves ids that differ in their last
/// character close together, so its bits are mixed again.
inline double unit_of(std::string_view id) {
  uint32_t bits = fnv1a_32(id);
  bits = (bits ^ bits >> 16) * 0x85ebca6bu;
  bits = (bits ^ bits >> 13) * 0xc2b2ae35u;
  return static_cast<double>(bits ^ bits >> 16) * 0x1p-32;
}

}  // namespace llmd::plugins
