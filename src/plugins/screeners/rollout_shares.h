#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace llmd::plugins {

/// How a rollout divides requests between revisions.
enum class RolloutMode : uint8_t {
  kSum,      // by their endpoints of all required roles
  kMaxRole,  // by their endpoints of the role that has most
  kDisabled  // not at all
};

/// Endpoints by revision and required role, in the order of the roles.
using RolloutCounts = std::map<std::string_view, std::vector<int64_t>>;

/// The revisions that have an endpoint of every role, with their shares, in order of names. The
/// shares sum to 1. Requires: roles > 0, and as many counts per revision.
std::vector<std::pair<std::string_view, double>> rollout_shares(const RolloutCounts& counts,
                                                                size_t roles, RolloutMode mode);

/// The revision at `draw` in [0, 1) of the cumulated shares. Requires: there are any.
std::string_view pick_revision(std::span<const std::pair<std::string_view, double>> shares,
                               double draw);

}  // namespace llmd::plugins
