#pragma once

#include "base/result.h"
#include "sim/config.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace llmd::sim {

using Labels = std::vector<std::pair<std::string, std::string>>;

/// One entry of the list `endpoints:`: `count` servers alike.
struct EndpointGroup {
  uint32_t count = 1;
  std::string name_prefix = "sim";
  std::string address_range;  // empty: consecutive ports
  std::optional<uint16_t> port_base;
  Labels labels;
  ServerConfig server;  // the process's configuration with the group's overrides
};

/// What one `llmd sim` process runs.
struct Settings {
  std::vector<EndpointGroup> groups;
  std::string endpoints_out;
  double time_scale = 1;
  uint32_t loops = 1;
  bool help = false;
  std::vector<std::string> warnings;  // for the user; nothing was dropped without one
};

/// Where settings come from besides the command line; injected for tests.
struct Environment {
  std::function<std::string(const char* name)> variable;             // "" when unset
  std::function<Result<std::string>(const std::string& path)> read;  // a file's text
};
Environment process_environment();

/// Precedence: command line, environment (SIM_MODEL, PYTHONHASHSEED), YAML file, preset, default.
/// Errors name the flag, or file, line and key, the value, and the nearest valid name.
Result<Settings> parse_settings(std::span<const std::string> args, const Environment& environment);

/// One server to start.
struct EndpointPlan {
  std::string name;
  std::string address;
  uint16_t port = 0;
  Labels labels;
  ServerConfig config;
  uint32_t events_offset = 0;  // of the port of its KV events to that of the first server
};
Result<std::vector<EndpointPlan>> plan_endpoints(const Settings& settings);

/// The endpoints file that file discovery reads, as YAML. A server whose KV events are N ports
/// further than those of the first one is called NAME-rank-N there, by which routers find them.
std::string endpoints_file(std::span<const EndpointPlan> plans);

std::string help_text();

}  // namespace llmd::sim
