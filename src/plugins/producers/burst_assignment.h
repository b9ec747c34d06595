#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace llmd::plugins {

/// An endpoint that requests of a burst can go to.
struct BurstReplica {
  std::string_view id;
  int64_t running = 0;  // requests
};

struct BurstRules {
  int64_t per_replica_max = -1;    // requests of one prompt; -1: any number
  size_t colocate_blocks_min = 0;  // so many common blocks keep requests together; 0: only whole
                                   // prompts do
  bool balance_by_tokens = false;  // by blocks that have to be computed, not by requests
};

/// Assigns requests that arrived together, so that equal prompts are computed on few replicas and
/// the replicas are loaded alike: for each request the index of its replica, or nothing for one
/// that has nothing in common with others (spec 02 §11.7). `prompts` are chains of block hashes, in
/// which equal beginnings are equal prompts.
/// Cost: requests × replicas × blocks at worst.
std::vector<std::optional<size_t>> assign_burst(std::span<const std::vector<uint64_t>> prompts,
                                                std::span<const BurstReplica> replicas,
                                                const BurstRules& rules);

}  // namespace llmd::plugins
