#include "router_options.h"

#include "base/text.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <cstdio>
#include <functional>

namespace llmd {
namespace {

constexpr Nanos kScrapeIntervalMin = std::chrono::milliseconds(50);

/// Flags of the reference that chose metric names before engines could be configured.
constexpr std::string_view kMetricNameFlags[] = {
    "total-queued-requests-metric", "total-running-requests-metric",
    "kv-cache-usage-percentage-metric", "lora-info-metric", "cache-info-metric"};

class Flags {
 public:
  explicit Flags(CLI::App& app) : app_(app) {}

  void duration(const char* name, Nanos& value, const char* help) {
    app_.add_option_function<std::string>(
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

  void quantity(const char* name, int64_t& value, const char* help) {
    app_.add_option_function<std::string>(
            name,
            [&value, name](const std::string& text) {
              auto parsed = parse_quantity(text);
              if (!parsed || *parsed <= 0)
                throw CLI::ValidationError(name,
                                           parsed ? "must be positive" : parsed.error().message);
              value = *parsed;
            },
            help)
        ->type_name("QUANTITY")
        ->default_str(std::to_string(value));
  }

 private:
  CLI::App& app_;
};

log::Level level_of(int verbosity) {
  if (verbosity >= 5) return log::Level::kTrace;
  if (verbosity == 4) return log::Level::kDebug;
  if (verbosity == 3) return log::Level::kVerbose;
  return log::Level::kInfo;
}

void check_together(const RouterOptions& o, std::vector<std::string>& problems) {
  if (!o.config_file.empty() && !o.config_text.empty())
    problems.emplace_back("--config-file and --config-text exclude each other");
  if (!o.endpoints.empty() && !o.endpoints_file.empty())
    problems.emplace_back("--endpoint and --endpoints-file exclude each other");
}

}  // namespace

ParsedRouterOptions parse_router_options(int argc, char** argv) {
  ParsedRouterOptions parsed;
  RouterOptions& o = parsed.options;
  CLI::App app("Reverse proxy and endpoint picker in one process.", "llmd router");
  app.get_formatter()->column_width(44);
  app.option_defaults()->always_capture_default();
  Flags flags(app);

  app.add_option("--config-file", o.config_file,
                 "EndpointPickerConfig, YAML or JSON; reloaded when it changes");
  app.add_option("--config-text", o.config_text, "the same as text");
  app.add_flag("--allow-experimental-plugins", o.allow_experimental_plugins,
               "let Alpha plugins load");

  app.add_option("--host", o.host, "address to listen on");
  app.add_option("--port", o.port, "port for clients; 0 takes a free one");
  app.add_option("--ready-port", o.ready_port, "a port of its own for /ready; 0: none");
  app.add_option("--metrics-host", o.metrics_host, "address of the admin port");
  app.add_option("--metrics-port", o.metrics_port,
                 "admin port: /metrics /healthz /readyz /debug; 0 takes a free one");
  app.add_option("--loops", o.loops, "event loops; 0: one per core")->check(CLI::Range(0, 256));
  app.add_option("--seed", o.seed, "of random choices, for repeatable runs with one loop");

  app.add_option("--endpoint", o.endpoints, "model server: URL[;label=value…], repeatable")
      ->take_all();
  app.add_option("--endpoints-file", o.endpoints_file, "file of endpoints, watched");
  app.add_option("--pool-name", o.pool_name, "label `name` of the pool's metrics");

  flags.duration("--refresh-metrics-interval", o.refresh_metrics_interval,
                 "how often an endpoint is scraped");
  flags.duration("--idle-metrics-interval", o.idle_metrics_interval,
                 "the same for endpoints with nothing in flight; 0: as often");
  flags.duration("--refresh-prometheus-metrics-interval", o.refresh_prometheus_metrics_interval,
                 "how often pool averages are computed");
  flags.duration("--metrics-staleness-threshold", o.metrics_staleness_threshold,
                 "older metrics do not count into pool averages");

  flags.quantity("--max-request-body", o.body_bytes_max, "larger request bodies get 413");
  app.add_flag("--hide-served-endpoint", o.hide_served_endpoint,
               "do not tell clients which endpoint answered");

  flags.duration("--header-timeout", o.header_timeout,
                 "for a request's head to arrive whole; 0: none, as for those below");
  flags.duration("--body-idle-timeout", o.body_idle_timeout,
                 "between two arrivals of a request's body");
  flags.duration("--connect-timeout", o.connect_timeout, "for a connection to an endpoint");
  flags.duration("--first-byte-timeout", o.first_byte_timeout,
                 "from the end of a request to the head of its answer");
  flags.duration("--stream-idle-timeout", o.stream_idle_timeout,
                 "between two arrivals of an answer");
  app.add_option("--max-endpoints-tried", o.retry.endpoints_max,
                 "endpoints that a request is sent to when one after the other fails")
      ->check(CLI::Range(size_t{1}, route::RetryOptions::kEndpointsMost));
  app.add_flag("--retry-after-send", o.retry.after_send,
               "try again also when an endpoint broke off after it had the whole request");
  bool no_ejection = false;
  app.add_flag("--no-ejection", no_ejection, "go on choosing endpoints that fail");
  app.add_option("--ejection-strikes", o.ejection.strikes,
                 "5xx answers in a row that eject an endpoint")
      ->check(CLI::Range(1, 1'000'000));
  flags.duration("--drain-timeout", o.drain.drain_timeout,
                 "how long serving goes on after SIGTERM, not ready");
  flags.duration("--shutdown-grace", o.drain.shutdown_grace,
                 "how long open requests may finish after that");

  int verbosity = 2;
  app.add_option("-v", verbosity, "log level: 2 default, 3 verbose, 4 debug, 5 trace");
  std::string level, format = "json";
  app.add_option("--zap-log-level", level, "error, info or debug; overrides -v")
      ->check(CLI::IsMember({"", "error", "info", "debug"}));
  app.add_option("--log-format", format, "json or console")
      ->check(CLI::IsMember({"json", "console"}));
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

  std::vector<std::string> problems;
  try {
    app.parse(argc, argv);
    check_together(o, problems);
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    parsed.exit_code = 0;
    return parsed;
  } catch (const CLI::ParseError& e) {
    problems.emplace_back(e.what());
  }
  if (!problems.empty()) {
    std::fprintf(stderr, "llmd router: %s\n", problems[0].c_str());
    parsed.exit_code = 2;
    return parsed;
  }
  if (o.refresh_metrics_interval < kScrapeIntervalMin) {
    log::warn("--refresh-metrics-interval is raised to its minimum",
              {{"asked", format_duration(o.refresh_metrics_interval)},
               {"used", format_duration(kScrapeIntervalMin)}});
    o.refresh_metrics_interval = kScrapeIntervalMin;
  }
  o.ejection.enabled = !no_ejection;
  o.log_level = level == "error"   ? log::Level::kError
                : level == "debug" ? log::Level::kDebug
                                   : level_of(verbosity);
  o.log_format = format == "json" ? log::Format::kJson : log::Format::kConsole;
  return parsed;
}

}  // namespace llmd
