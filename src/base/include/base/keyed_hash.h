#pragma once

#include "base/rng.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

/// Hashing for tables whose keys clients choose: model names, fairness ids, API keys, prompt
/// blocks. A secret of the process goes into it, so nobody outside can make keys that fall into one
/// place and turn a look-up into a walk. Never for what is shown, stored or compared between
/// processes.
namespace llmd {

using HashSecret = std::array<uint64_t, 2>;

/// Drawn from the system at the first use.
const HashSecret& process_secret();

/// SipHash-1-3 of `text`. Cost: about a nanosecond per 2 bytes.
uint64_t keyed_hash(std::string_view text, const HashSecret& secret = process_secret());

/// The same for keys that are numbers, by one wide multiplication.
inline uint64_t keyed_hash(uint64_t key, const HashSecret& secret) {
  const uint128 product = static_cast<uint128>(key ^ secret[0]) * (secret[1] | 1);
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

/// For maps and sets: `boost::unordered_flat_map<std::string, T, KeyedHash, std::equal_to<>>`.
struct KeyedHash {
  using is_transparent = void;
  using is_avalanching = void;
  size_t operator()(std::string_view text) const { return keyed_hash(text); }
};

}  // namespace llmd
