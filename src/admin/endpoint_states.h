#pragma once

#include "base/clock.h"
#include "fleet/fleet.h"

#include <string>

namespace llmd::admin {

/// The endpoints of `pool` as JSON: identity, labels, requests under way, whether they are chosen,
/// what was scraped of them, and how much of their prompts was cached.
std::string endpoint_states(const fleet::Snapshot& pool, TimePoint now);

}  // namespace llmd::admin
