#pragma once

#include "base/clock.h"
#include "schedule/pipeline.h"

#include <string>

namespace llmd::admin {

/// The body of GET /debug/plugins/state (spec 04 §6):
/// {"timestamp": RFC 3339 UTC with nanoseconds, "plugins": {NAME: {"name", "type", "state" |
/// "message"}}}.
std::string plugin_states(const schedule::Pipeline& pipeline, WallTime now);

/// "2026-11-29T15:04:05.000000001Z"
std::string rfc3339_nanos(WallTime t);

}  // namespace llmd::admin
