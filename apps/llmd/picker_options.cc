#include "picker_options.h"

#include "command_line.h"

#include "base/text.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdio>

namespace llmd {
namespace {

constexpr Nanos kScrapeIntervalMin = std::chrono::milliseconds(50);

/// Flags of the reference that chose metric names before engines could be configured.
constexpr std::string_view kMetricNameFlags[] = {
    "total-queued-requests-metric", "total-running-requests-metric",
    "kv-cache-usage-percentage-metric", "lora-info-metric", "cache-info-metric"};

log::Level level_of(int verbosity) {
  if (verbosity >= 5) return log::Level::kTrace;
  if (verbosity == 4) return log::Level::kDebug;
  if (verbosity == 3) return log::Level::kVerbose;
  return verbosity == 2 ? log::Level::kInfo : log::Level::kWarn;
}

void check_together(const PickerOptions& o) {
  if (!o.config_file.empty() && !o.config_text.empty())
    throw CLI::ValidationError("--config-file and --config-text exclude each other");
}

void add_common_flags(CLI::App& app, PickerOptions& o) {
  app.add_option("--config-file", o.config_file,
                 "EndpointPickerConfig, YAML or JSON; reloaded when it changes");
  app.add_option("--config-text", o.config_text, "the same as text");
  app.add_option("--objects-dir", o.objects_dir,
                 "directory of InferenceObjective and InferenceModelRewrite files, watched");
  app.add_flag("--allow-experimental-plugins", o.allow_experimental_plugins,
               "let Alpha plugins load");

  app.add_flag(
      "--untrusted-clients", o.untrusted_clients,
      "do not hear, nor pass on, headers by which clients choose objective, fairness id or "
      "another model");
  app.add_option("--upstream-api-key-file", o.upstream_api_key_file,
                 "file with the API key that is sent to model servers; reloaded when it changes");

  add_port(app, "--ready-port", o.ready_port, "a port of its own for /ready; 0: none");
  app.add_option("--metrics-host", o.metrics_host, "address of the admin port");
  add_port(app, "--metrics-port", o.metrics_port,
           "admin port: /metrics /healthz /readyz /debug, and a page at /; 0 takes a free one");
  app.add_option(
      "--admin-token-file", o.admin_token_file,
      "file with the bearer token for /debug; without it /debug answers on loopback only");
  app.add_option(
         "--decision-history", o.decision_history,
         "decisions that each event loop keeps for /debug/decisions and llmd explain, 4 KiB "
         "each; 0: none")
      ->check(CLI::Range(0, 100'000))
      ->capture_default_str();
  app.add_option("--loops", o.loops, "event loops; 0: one per core")->check(CLI::Range(0, 256));
  app.add_option("--seed", o.seed, "of random choices, for repeatable runs with one loop");

  add_endpoint_flags(app, o);
  app.add_option("--pool-name", o.pool_name, "label `name` of the pool's metrics");

  add_duration(app, "--refresh-metrics-interval", o.refresh_metrics_interval,
               "how often an endpoint is scraped");
  add_duration(app, "--idle-metrics-interval", o.idle_metrics_interval,
               "the same for endpoints with nothing in flight; 0: as often");
  add_duration(app, "--refresh-prometheus-metrics-interval", o.refresh_prometheus_metrics_interval,
               "how often pool averages are computed");
  add_duration(app, "--metrics-staleness-threshold", o.metrics_staleness_threshold,
               "older metrics do not count into pool averages");

  app.add_flag("--tracing", o.tracing,
               "export spans where OTEL_EXPORTER_OTLP_ENDPOINT says; --tracing=false: never");

  add_quantity(app, "--max-request-body", o.body_bytes_max, "larger request bodies get 413");
  add_duration(app, "--drain-timeout", o.drain.drain_timeout,
               "how long serving goes on after SIGTERM, not ready");
  add_duration(app, "--shutdown-grace", o.drain.shutdown_grace,
               "how long open requests may finish after that");
}

struct LogFlags {
  int verbosity = 2;
  std::string level, format = "json";
};

void add_log_flags(CLI::App& app, LogFlags& log) {
  app.add_option("-v,--v", log.verbosity,
                 "log level: 1 warnings, 2 default, 3 verbose, 4 debug, 5 trace");
  app.add_option("--zap-log-level", log.level, "error, info or debug; overrides -v")
      ->check(CLI::IsMember({"", "error", "info", "debug"}));
  app.add_option("--log-format", log.format, "json or console")
      ->check(CLI::IsMember({"json", "console"}));
}

void add_removed_flags(CLI::App& app) {
  for (const auto name : kMetricNameFlags)
    app.add_option_function<std::string>(
           fmt::format("--{}", name),
           [name](const std::string&) {
             throw CLI::ValidationError(
                 fmt::format("--{}", name),
                 "was removed; use engineConfigs of the core-metrics-extractor plugin");
           },
           "")
        ->group("");
}

}  // namespace

void add_http2_limits(CLI::App& app, PickerOptions::Http2& http2) {
  const auto range = CLI::Range(1u, 1'000'000u);
  app.add_option("--max-streams", http2.streams_max, "concurrent streams of an HTTP/2 connection")
      ->check(range);
  app.add_option("--max-resets-per-second", http2.resets_per_second,
                 "streams that an HTTP/2 peer may reset unanswered; ten times that at once; more "
                 "ends its connection")
      ->check(range);
  app.add_option("--max-control-frames-per-second", http2.control_frames_per_second,
                 "the same for PING, SETTINGS, PRIORITY and empty frames")
      ->check(range);
}

void add_duration(CLI::App& app, const char* name, Nanos& value, const char* help) {
  app.add_option_function<std::string>(
         name,
         [&value, name](const std::string& text) {
           auto parsed = parse_duration(text);
           if (!parsed) throw CLI::ValidationError(name, parsed.error().message);
           if (*parsed < Nanos(0)) throw CLI::ValidationError(name, "must not be negative");
           value = *parsed;
         },
         help)
      ->type_name("DURATION")
      ->default_str(format_duration(value));
}

void add_quantity(CLI::App& app, const char* name, int64_t& value, const char* help) {
  app.add_option_function<std::string>(
         name,
         [&value, name](const std::string& text) {
           auto parsed = parse_quantity(text);
           if (!parsed || *parsed <= 0)
             throw CLI::ValidationError(name, parsed ? "must be positive" : parsed.error().message);
           value = *parsed;
         },
         help)
      ->type_name("QUANTITY")
      ->default_str(std::to_string(value));
}

std::optional<int> parse_picker_flags(CLI::App& app, PickerOptions& o, int argc, char** argv) {
  app.get_formatter()->column_width(44);
  LogFlags log;
  add_common_flags(app, o);
  add_tls_flags(app, o.tls);
  add_log_flags(app, log);
  add_removed_flags(app);
  app.final_callback([&] {
    check_together(o);
    check_tls_flags(app, o.tls);
  });
  if (const auto code = parse_command_line(app, argc, argv)) return code;
  if (o.refresh_metrics_interval < kScrapeIntervalMin) {
    log::warn("--refresh-metrics-interval is raised to its minimum",
              {{"asked", format_duration(o.refresh_metrics_interval)},
               {"used", format_duration(kScrapeIntervalMin)}});
    o.refresh_metrics_interval = kScrapeIntervalMin;
  }
  o.log_level = log.level == "error"   ? log::Level::kError
                : log.level == "debug" ? log::Level::kDebug
                                       : level_of(log.verbosity);
  o.log_format = log.format == "json" ? log::Format::kJson : log::Format::kConsole;
  return std::nullopt;
}

}  // namespace llmd
