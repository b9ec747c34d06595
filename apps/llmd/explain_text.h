#pragma once

#include "base/result.h"

#include <string>
#include <string_view>

namespace llmd {

/// The answer of GET /debug/decisions for people: a table of several requests, or everything about
/// one where it is told whole. Control characters come out as '?'. Errors: `json` is no such
/// answer.
Result<std::string> explain_text(std::string_view json);

}  // namespace llmd
