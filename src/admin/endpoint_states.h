#pragma once

#include "base/clock.h"
#include "fleet/fleet.h"

#include <string>

namespace llmd::admin {

/// The endpoints of `pool` as JSON: identity, requests under way, and whether they are chosen.
std::string endpoint_states(const fleet::Snapshot& pool, TimePoint now);

}  // namespace llmd::admin
