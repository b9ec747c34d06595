#pragma once

#include "api.h"

#include "sim/config.h"

#include <optional>
#include <string>
#include <string_view>

namespace llmd::sim {

/// The answer to GET /admin/config: every key with its value, durations as text.
std::string show_config(const ServerConfig& config, std::string_view address);

/// Applies the body of POST /admin/config to `config`: all of it, or nothing and what is wrong.
std::optional<ApiError> update_config(ServerConfig& config, std::string_view body);

}  // namespace llmd::sim
