#pragma once

#include "base/result.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace llmd::config {

using Gates = std::vector<std::pair<std::string, bool>>;

/// The gates that exist, with their defaults (spec 02 §1.3).
Gates default_gates();

/// Applies one entry: "name", "name=true", "name=false". Errors name the entry and the nearest
/// gate.
Status apply_gate(std::string_view entry, Gates& gates);

}  // namespace llmd::config
