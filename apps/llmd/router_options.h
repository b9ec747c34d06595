#pragma once

#include "drain.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/result.h"
#include "fleet/health.h"
#include "route/retry.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace llmd {

/// Everything `llmd router` can be told on its command line. Names and defaults are those of the
/// reference where it has the flag (spec 01 §10).
struct RouterOptions {
  std::string config_file;
  std::string config_text;
  bool allow_experimental_plugins = false;

  std::string host = "0.0.0.0";
  uint16_t port = 8080;
  uint16_t ready_port = 0;  // 0: readiness is only on the metrics port
  uint16_t metrics_port = 9090;
  std::string metrics_host = "0.0.0.0";
  size_t loops = 0;  // 0: one per core
  std::optional<uint64_t> seed;

  std::vector<std::string> endpoints;
  std::string endpoints_file;
  std::string pool_name = "epp";

  Nanos refresh_metrics_interval = std::chrono::milliseconds(50);
  Nanos idle_metrics_interval{
      0};  // 0: endpoints with nothing in flight are scraped as often as the others
  Nanos refresh_prometheus_metrics_interval = std::chrono::seconds(5);
  Nanos metrics_staleness_threshold = std::chrono::seconds(2);

  int64_t body_bytes_max = int64_t{512} << 20;
  bool hide_served_endpoint = false;

  // Time-outs; 0: none.
  Nanos header_timeout = std::chrono::seconds(10);
  Nanos body_idle_timeout = std::chrono::seconds(60);
  Nanos connect_timeout = std::chrono::seconds(2);
  Nanos first_byte_timeout{0};
  Nanos stream_idle_timeout{0};

  route::RetryOptions retry;
  fleet::EjectionOptions ejection;
  DrainOptions drain;

  log::Level log_level = log::Level::kInfo;
  log::Format log_format = log::Format::kJson;
};

/// Reads the command line. The value is empty when the process is to end now with `exit_code`:
/// after --help, or after one line on stderr that names the flag, its value and what is allowed.
struct ParsedRouterOptions {
  RouterOptions options;
  int exit_code = -1;  // >= 0: end with it
};
ParsedRouterOptions parse_router_options(int argc, char** argv);

}  // namespace llmd
