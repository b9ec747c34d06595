#pragma once

#include "base/arena.h"

#include <optional>
#include <string_view>

namespace llmd {

/// Standard base64 with padding. Results live in `arena`.
std::string_view base64_encode(std::string_view bytes, Arena& arena);
/// Nothing for any other text, also one whose unused bits are not zero.
std::optional<std::string_view> base64_decode(std::string_view text, Arena& arena);

}  // namespace llmd
