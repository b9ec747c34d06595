#pragma once

#include "picker_options.h"

#include "fleet/health.h"
#include "route/retry.h"

#include <optional>
#include <string>

namespace llmd {

/// Everything `llmd router` can be told on its command line.
struct RouterOptions : PickerOptions {
  std::string host = "0.0.0.0";
  uint16_t port = 8080;
  int64_t header_bytes_max = int64_t{64} << 10;
  size_t headers_max = 256;
  size_t connections_max = 0;       // per loop; 0: no limit
  size_t connections_per_peer = 0;  // 0: no limit
  int64_t buffered_bytes_max = int64_t{4} << 30;
  bool hide_served_endpoint = false;

  // Time-outs; 0: none.
  Nanos header_timeout = std::chrono::seconds(10);
  Nanos body_idle_timeout = std::chrono::seconds(60);
  Nanos request_timeout = std::chrono::minutes(10);
  Nanos connect_timeout = std::chrono::seconds(2);
  Nanos first_byte_timeout{0};
  Nanos stream_idle_timeout{0};

  route::RetryOptions retry;
  fleet::EjectionOptions ejection;
};

/// Reads the command line; as parse_picker_flags().
std::optional<int> parse_router_options(RouterOptions& options, int argc, char** argv);

}  // namespace llmd
