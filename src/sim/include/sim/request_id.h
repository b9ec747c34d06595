#pragma once

#include <cstdint>
#include <string>

namespace llmd::sim {

/// The id of the `n`-th id-bearing call of a server: UUIDv5 in the RFC 4122 URL namespace of
/// "SEED-PORT-N", so a run with the same seed repeats its ids. Cost: one SHA-1 of two blocks.
std::string request_id(int64_t seed, uint16_t port, uint64_t n);

}  // namespace llmd::sim
