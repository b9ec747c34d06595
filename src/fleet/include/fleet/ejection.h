#pragma once

#include "fleet/fleet.h"

#include <algorithm>

namespace llmd::fleet {

inline bool is_ejected(const Endpoint& endpoint, TimePoint now) {
  return endpoint.health.state(now) == EndpointHealth::State::kEjected;
}

/// Whether those that are ejected are left out of the choice: some are, and at most half of the
/// pool.
inline bool leaves_out_ejected(const Snapshot& pool, TimePoint now) {
  const auto ejected = std::ranges::count_if(
      pool.endpoints, [&](const auto& endpoint) { return is_ejected(*endpoint, now); });
  return ejected > 0 && static_cast<size_t>(ejected) * 2 <= pool.endpoints.size();
}

}  // namespace llmd::fleet
