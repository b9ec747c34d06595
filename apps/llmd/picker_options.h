#pragma once

#include "drain.h"
#include "endpoint_flags.h"
#include "tls_options.h"

#include "base/clock.h"
#include "base/log.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace llmd {

/// What every serving command can be told. Names and defaults are those of the reference where it
/// has the flag (spec 01 §10).
struct PickerOptions : EndpointFlags {
  /// What an HTTP/2 peer may ask of its connection.
  struct Http2 {
    uint32_t streams_max = 256;
    uint32_t resets_per_second = 100;
    uint32_t control_frames_per_second = 100;
  } http2;

  std::string config_file;
  std::string config_text;
  bool allow_experimental_plugins = false;
  bool untrusted_clients = false;
  std::string client_api_keys_file;   // "": clients need no key
  std::string upstream_api_key_file;  // "": none is sent to model servers
  std::string objects_dir;            // "": no objectives, no model rewrites

  uint16_t ready_port = 0;  // 0: readiness is only on the metrics port
  uint16_t metrics_port = 9090;
  std::string metrics_host = "0.0.0.0";
  std::string admin_token_file;   // "": the /debug pages answer on loopback only
  size_t decision_history = 512;  // decisions kept per loop; 0: none
  size_t loops = 0;               // 0: one per core
  std::optional<uint64_t> seed;

  std::string pool_name = "epp";

  Nanos refresh_metrics_interval = std::chrono::milliseconds(50);
  Nanos idle_metrics_interval{
      0};  // 0: endpoints with nothing in flight are scraped as often as the others
  Nanos refresh_prometheus_metrics_interval = std::chrono::seconds(5);
  Nanos metrics_staleness_threshold = std::chrono::seconds(2);

  /// Spans are exported when the OTEL_* environment says where to.
  bool tracing = true;

  TlsOptions tls;

  int64_t body_bytes_max = int64_t{512} << 20;
  DrainOptions drain;

  log::Level log_level = log::Level::kInfo;
  log::Format log_format = log::Format::kJson;
};

/// Flags whose values have a unit.
void add_http2_limits(CLI::App& app, PickerOptions::Http2& http2);
void add_duration(CLI::App& app, const char* name, Nanos& value, const char* help);
/// A Kubernetes quantity above 0.
void add_quantity(CLI::App& app, const char* name, int64_t& value, const char* help);

/// Declares the flags of PickerOptions and reads a command line with them and with those that the
/// command has added to `app` before. The value is the code to exit with now: 0 after --help, 2
/// after one line on stderr that names the flag, its value and what is allowed; none: go on.
std::optional<int> parse_picker_flags(CLI::App& app, PickerOptions& options, int argc, char** argv);

}  // namespace llmd
