#pragma once

#include "base/clock.h"

#include <optional>
#include <string>
#include <string_view>

namespace llmd::grpc {

/// "100m" (milliseconds) and the like, as grpc-timeout spells them; nothing for anything else.
std::optional<Nanos> parse_timeout(std::string_view text);
/// grpc-message: bytes outside the visible ones as %XX.
std::string percent_encoded(std::string_view text);

}  // namespace llmd::grpc
