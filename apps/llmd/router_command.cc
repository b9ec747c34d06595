#include "commands.h"
#include "plugin_list.h"
#include "router_options.h"

#include "admin/server.h"
#include "base/log.h"
#include "base/rng.h"
#include "config/loader.h"
#include "config/reload.h"
#include "fleet/address.h"
#include "fleet/discovery.h"
#include "fleet/file_discovery.h"
#include "fleet/pool_metrics.h"
#include "fleet/scraper.h"
#include "fleet/static_discovery.h"
#include "frontend/proxy.h"
#include "io/loop.h"
#include "io/signals.h"
#include "io/socket.h"
#include "metric/process.h"
#include "route/director.h"

#include <fmt/format.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

namespace llmd {
namespace {

constexpr Nanos kReloadTick = std::chrono::seconds(1);

/// Client and endpoint connections that a process should be able to hold.
constexpr uint64_t kFilesWanted = 20'000;

constexpr double kOverheadBuckets[] = {.00001, .00002, .00005, .0001, .00015, .0002, .0003,
                                       .0005,  .001,   .002,   .005,  .01,    .05,   .1};

class Router {
 public:
  explicit Router(RouterOptions options);

  /// Errors are one line for the operator.
  Status start();
  /// Serves until SIGTERM or SIGINT; returns the exit code.
  int run();

 private:
  Result<std::unique_ptr<fleet::Discovery>> make_discovery(const config::Loaded& loaded);
  void publish(config::Loaded loaded);
  void every(io::Timer& timer, Nanos interval, std::function<void()> work);
  void on_signal(int signal);
  void warn_of_endless_waits();
  frontend::ProxyOptions proxy_options();
  void expose_build();

  const RouterOptions options_;
  const size_t loops_;
  const plugin::Registry plugins_ = builtin_plugins();
  metric::Registry metrics_;
  const std::shared_ptr<void> process_metrics_;
  plugin::StateStore state_;
  fleet::Fleet fleet_;
  io::Loop control_;
  const io::Signals signals_;
  route::Director director_;
  fleet::Scraper scraper_;
  fleet::PoolMetrics pool_metrics_;
  std::optional<config::Reloader> reloader_;
  std::optional<fleet::DiscoveryThread> discovery_;
  admin::Server admin_;
  std::optional<frontend::Proxy> proxy_;
  io::Timer pool_timer_, reload_timer_;
  bool serving_ = false;
  Drain drain_;
};

Router::Router(RouterOptions options)
    : options_(std::move(options)),
      loops_(options_.loops ? options_.loops : std::max(1u, std::thread::hardware_concurrency())),
      metrics_(loops_ + 1),
      process_metrics_(metric::collect_process(metrics_)),
      control_(loops_, random_seed()),
      signals_(control_, {SIGTERM, SIGINT, SIGHUP}, [this](int signal) { on_signal(signal); }),
      director_(fleet_, metrics_, real_clock(),
                {.retry = options_.retry, .ejection = options_.ejection}),
      scraper_(control_, fleet_, metrics_,
               {.interval = options_.refresh_metrics_interval,
                .idle_interval = options_.idle_metrics_interval}),
      pool_metrics_(fleet_, metrics_, options_.pool_name, options_.metrics_staleness_threshold),
      admin_(control_, {options_.metrics_host, options_.metrics_port, options_.ready_port},
             metrics_, director_,
             [this]() -> std::string {
               return drain_.draining() ? "draining" : serving_ ? "" : "starting";
             }),
      pool_timer_(control_),
      reload_timer_(control_),
      drain_(control_, options_.drain, [this](Nanos grace) { proxy_->stop(grace); }) {}

Result<std::unique_ptr<fleet::Discovery>> Router::make_discovery(const config::Loaded& loaded) {
  const bool flags = !options_.endpoints.empty() || !options_.endpoints_file.empty();
  if (loaded.discovery) {
    if (flags)
      return fail(Code::kBadRequest,
                  "endpoints come from the configuration's dataLayer.discovery and from a "
                  "flag; give one of them");
    return dynamic_cast<const fleet::DiscoveryPlugin&>(*loaded.discovery).make_discovery();
  }
  if (!options_.endpoints_file.empty())
    return std::make_unique<fleet::FileDiscovery>(
        fleet::FileDiscovery::Options{options_.endpoints_file, true}, real_clock(), metrics_);
  if (!flags)
    return fail(Code::kBadRequest,
                "no endpoints: give --endpoint, --endpoints-file or dataLayer.discovery");
  LLMD_TRY_ASSIGN(auto specs, fleet::parse_endpoint_flags(options_.endpoints));
  for (const auto& spec : specs)
    if (spec.scheme != "http")
      return fail(Code::kBadRequest,
                  fmt::format("endpoint '{}': scheme '{}' is not available in this build; use http",
                              spec.name, spec.scheme));
  return std::make_unique<fleet::StaticDiscovery>(std::move(specs), fleet::system_resolver(),
                                                  real_clock());
}

void Router::publish(config::Loaded loaded) {
  for (const auto& warning : loaded.pipeline->warnings) log::warn(warning);
  scraper_.configure(loaded.pipeline->metrics_source, loaded.pipeline->metrics_extractor,
                     loaded.pipeline);
  director_.set_pipeline(std::move(loaded.pipeline));
}

frontend::ProxyOptions Router::proxy_options() {
  frontend::ProxyOptions o;
  o.host = options_.host;
  o.port = options_.port;
  o.loops = loops_;
  o.seed = options_.seed;
  o.body_bytes_max = static_cast<uint64_t>(options_.body_bytes_max);
  o.head_timeout = options_.header_timeout;
  o.body_timeout = options_.body_idle_timeout;
  o.connect_timeout = options_.connect_timeout;
  o.response_timeout = options_.first_byte_timeout;
  o.stream_idle_timeout = options_.stream_idle_timeout;
  o.hide_endpoint = options_.hide_served_endpoint;
  o.forward_delay =
      metrics_
          .family({"llmd_router_overhead_seconds",
                   metric::Kind::kHistogram,
                   "Time from a request's last byte to its first byte on the way to the endpoint.",
                   {},
                   kOverheadBuckets,
                   {}})
          .histogram({});
  return o;
}

void Router::expose_build() {
  const std::array<std::string_view, 2> labels = {LLMD_COMMIT, LLMD_VERSION};
  metrics_
      .family({"llm_d_epp_info",
               metric::Kind::kGauge,
               "The build that runs.",
               {"commit", "build_ref"},
               {},
               {{"inference_extension_info", {{"commit", "commit"}, {"build_ref", "build_ref"}}}}})
      .gauge(labels)
      .set(1);
}

Status Router::start() {
  expose_build();
  io::raise_file_limit(kFilesWanted);
  const config::Environment environment{.registry = plugins_,
                                        .state = state_,
                                        .metrics = metrics_,
                                        .clock = real_clock(),
                                        .fleet = &fleet_,
                                        .allow_experimental = options_.allow_experimental_plugins,
                                        .scrape_interval = options_.refresh_metrics_interval};
  std::string text(config::default_document()), file = "built-in configuration";
  if (!options_.config_text.empty()) {
    text = options_.config_text;
    file = "--config-text";
  } else if (!options_.config_file.empty()) {
    LLMD_TRY_ASSIGN(text, config::read_document(options_.config_file));
    file = options_.config_file;
  }
  LLMD_TRY_ASSIGN(auto loaded, config::load(text, file, environment));
  LLMD_TRY_ASSIGN(auto discovery, make_discovery(loaded));
  discovery_.emplace(std::move(discovery));
  LLMD_TRY(discovery_->start(fleet_));
  publish(std::move(loaded));
  if (!options_.config_file.empty())
    reloader_.emplace(options_.config_file, text, environment,
                      [this](config::Loaded l) { publish(std::move(l)); });

  LLMD_TRY(admin_.listen());
  proxy_.emplace(director_, fleet_, proxy_options());
  return proxy_->start();
}

void Router::every(io::Timer& timer, Nanos interval, std::function<void()> work) {
  timer.arm(interval, [this, &timer, interval, work = std::move(work)]() mutable {
    work();
    every(timer, interval, std::move(work));
  });
}

void Router::on_signal(int signal) {
  if (signal == SIGHUP) {
    if (reloader_) reloader_->reload();
  } else {
    drain_.on_signal(signal);
  }
}

/// Waits without an end are a choice that an operator should know of.
void Router::warn_of_endless_waits() {
  if (options_.first_byte_timeout == Nanos(0))
    log::warn(
        "--first-byte-timeout is off: a stalled endpoint holds its requests until clients leave");
  if (options_.stream_idle_timeout == Nanos(0))
    log::warn("--stream-idle-timeout is off: a stalled stream is held until its client leaves");
}

int Router::run() {
  every(pool_timer_, options_.refresh_prometheus_metrics_interval,
        [this] { pool_metrics_.refresh(real_clock().now()); });
  if (reloader_) every(reload_timer_, kReloadTick, [this] { reloader_->tick(); });
  serving_ = true;
  warn_of_endless_waits();
  log::info("serving", {{"address", fmt::format("{}:{}", options_.host, proxy_->port())},
                        {"admin", fmt::format("{}:{}", options_.metrics_host, admin_.port())},
                        {"endpoints", fleet_.snapshot()->endpoints.size()},
                        {"loops", loops_}});
  control_.run("control");
  return 0;
}

}  // namespace

int run_router(int argc, char** argv) {
  auto [options, exit_code] = parse_router_options(argc, argv);
  if (exit_code >= 0) return exit_code;
  const log::Options log_options{.level = options.log_level, .format = options.log_format};
  int code = 2;
  {
    Router router(std::move(options));
    log::start(log_options);  // a thread, so only now that the router has claimed the signals
    if (auto started = router.start(); started)
      code = router.run();
    else
      std::fprintf(stderr, "llmd router: %s\n", started.error().message.c_str());
  }
  log::stop();
  return code;
}

}  // namespace llmd
