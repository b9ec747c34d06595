#include "picker_process.h"

#include "plugin_list.h"

#include "base/log.h"
#include "base/rng.h"
#include "fleet/address.h"
#include "io/socket.h"
#include "metric/process.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <thread>

namespace llmd {
namespace {

constexpr Nanos kReloadTick = std::chrono::seconds(1);

/// Client and endpoint connections that a process should be able to hold.
constexpr uint64_t kFilesWanted = 20'000;
constexpr size_t kTokenizerThreadsMax = 4;

/// How long the end of the process may wait for the collector.
constexpr Nanos kLastExportTimeout = std::chrono::seconds(2);

/// The service that spans belong to, unless OTEL_SERVICE_NAME says otherwise; the reference's.
constexpr std::string_view kServiceName = "llm-d-epp";

std::unique_ptr<trace::Tracer> make_tracer(const std::optional<trace::Settings>& settings,
                                           metric::Registry& metrics) {
  return settings ? std::make_unique<trace::Tracer>(*settings, real_clock(), metrics) : nullptr;
}

route::DirectorOptions complete(route::DirectorOptions options, const PickerOptions& with,
                                trace::Tracer* tracer) {
  options.tracer = tracer;
  options.decision_history = with.decision_history;
  return options;
}

}  // namespace

PickerProcess::PickerProcess(PickerOptions options, route::DirectorOptions director,
                             std::optional<trace::Settings> tracing)
    : options_(std::move(options)),
      loops_(options_.loops ? options_.loops : std::max(1u, std::thread::hardware_concurrency())),
      plugins_(builtin_plugins()),
      metrics_(loops_ + 4),
      process_metrics_(metric::collect_process(metrics_)),
      renderers_(loops_ + 2, std::clamp<size_t>(loops_ / 2, 1, kTokenizerThreadsMax), metrics_),
      control_(loops_, random_seed()),
      signals_(control_, {SIGTERM, SIGINT, SIGHUP}, [this](int signal) { on_signal(signal); }),
      tracing_(std::move(tracing)),
      tracer_(make_tracer(tracing_, metrics_)),
      director_(fleet_, metrics_, real_clock(), complete(director, options_, tracer_.get())),
      tls_reloader_(control_, metrics_),
      pool_metrics_(fleet_, metrics_, options_.pool_name, options_.metrics_staleness_threshold),
      pool_timer_(control_),
      reload_timer_(control_),
      drain_(control_, options_.drain, [this](Nanos grace) { stop_(grace); }) {}

Result<std::unique_ptr<fleet::Discovery>> PickerProcess::make_discovery(
    const config::Loaded& loaded) {
  if (loaded.discovery && options_.given())
    return fail(Code::kBadRequest,
                "endpoints come from the configuration's dataLayer.discovery and from a "
                "flag; give one of them");
  if (loaded.discovery)
    return dynamic_cast<const fleet::DiscoveryPlugin&>(*loaded.discovery).make_discovery();
  if (!options_.given())
    return fail(Code::kBadRequest,
                "no endpoints: give --endpoint, --endpoints-file or dataLayer.discovery");
  return discovery_of(options_, metrics_);
}

void PickerProcess::publish(config::Loaded loaded) {
  for (const auto& warning : loaded.pipeline->warnings) log::warn(warning);
  scraper_->configure(loaded.pipeline->feeds, loaded.pipeline);
  director_.set_pipeline(std::move(loaded.pipeline));
}

void PickerProcess::expose_build() {
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

/// How endpoints are reached, by requests and by the scraper.
Status PickerProcess::start_tls() {
  LLMD_TRY_ASSIGN(upstream_tls_, llmd::upstream_tls(options_.tls.upstream, metrics_));
  tls_reloader_.add(upstream_tls_.context, "upstream", options_.tls.serving.reload);
  scraper_.emplace(control_, fleet_, metrics_,
                   fleet::ScrapeOptions{.interval = options_.refresh_metrics_interval,
                                        .idle_interval = options_.idle_metrics_interval,
                                        .upstream = upstream_tls_});
  return {};
}

Result<std::shared_ptr<tls::Context>> PickerProcess::serving_tls(
    std::vector<std::string_view> protocols) {
  LLMD_TRY_ASSIGN(auto context,
                  serving_context(options_.tls.serving, std::move(protocols), metrics_));
  if (context) tls_reloader_.add(context, "serving", options_.tls.serving.reload);
  return context;
}

Status PickerProcess::start_tracing() {
  if (!tracing_) return {};
  for (const auto& warning : tracing_->warnings) log::warn(warning);
  const auto resolved = fleet::system_resolver()(tracing_->host);
  if (!resolved)
    return fail(Code::kBadRequest,
                fmt::format("OTLP collector '{}': {}", tracing_->host, resolved.error().message));
  http::Destination collector;
  LLMD_TRY_ASSIGN(collector.address, io::SocketAddress::parse(resolved->front(), tracing_->port));
  if (tracing_->tls) {
    auto context = tls::Context::client(*tracing_->tls, tls::Metrics::of(metrics_, "tracing"));
    if (!context) return fail(std::move(context).error().in("OTEL_EXPORTER_OTLP_…CERTIFICATE"));
    tls_reloader_.add(*context, "tracing", options_.tls.serving.reload);
    collector.tls = std::make_shared<tls::Target>(std::move(*context), tracing_->host);
  }
  exporter_.emplace(control_, *tracer_, *tracing_, std::move(collector), LLMD_VERSION, metrics_);
  exporter_->start();
  return {};
}

/// The first plugin that wants predictions starts the thread that has them, whose loop comes after
/// that of control.
void PickerProcess::offer_predictions() {
  using Slot = predict::LatencyPredictorSlot;
  state_.get<Slot>(Slot::kName, [this] {
    return new Slot{[this] {
      if (!predictions_) {
        auto options = predict::read_service_options(trace::process_environment());
        for (const auto& warning : options.warnings) log::warn(warning);
        predictions_ = std::make_shared<predict::PredictionService>(loops_ + 1, random_seed(),
                                                                    std::move(options), metrics_);
      }
      return predictions_;
    }};
  });
}

void PickerProcess::offer_renderers() {
  using Slot = render::PromptRendererSlot;
  state_.get<Slot>(Slot::kName, [this] { return new Slot(renderers_.slot()); });
}

/// The first configuration with flow control starts the dispatcher's thread, the last of all.
void PickerProcess::offer_flow_control() {
  using Slot = flow::ControllerSlot;
  state_.get<Slot>(Slot::kName, [this] {
    return new Slot{[this]() -> flow::Controller& {
      if (!flow_control_)
        flow_control_ = std::make_unique<flow::Service>(loops_ + 3, random_seed(), real_clock(),
                                                        fleet_, metrics_, options_.pool_name);
      return flow_control_->controller();
    }};
  });
}

Status PickerProcess::read_credentials() {
  const frontend::CredentialFiles::Paths paths = {options_.client_api_keys_file,
                                                  options_.upstream_api_key_file};
  if (paths.client_keys.empty() && paths.upstream_key.empty()) return {};
  LLMD_TRY_ASSIGN(credentials_, frontend::CredentialFiles::open(
                                    paths, metrics_, [this](const frontend::CredentialsPtr& keys) {
                                      scraper_->authorize(keys->upstream_authorization);
                                      if (on_credentials_) on_credentials_(keys);
                                    }));
  scraper_->authorize(credentials_->current()->upstream_authorization);
  return {};
}

Status PickerProcess::start() {
  expose_build();
  LLMD_TRY(start_tls());
  LLMD_TRY(start_tracing());
  LLMD_TRY(read_credentials());
  offer_predictions();
  offer_renderers();
  offer_flow_control();
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
  if (!options_.objects_dir.empty()) {
    objects_.emplace(options_.objects_dir, options_.pool_name, metrics_,
                     [this](request::ObjectsPtr o) { director_.set_objects(std::move(o)); });
    LLMD_TRY(objects_->start());
  }
  if (!options_.config_file.empty())
    reloader_.emplace(options_.config_file, text, environment,
                      [this](config::Loaded l) { publish(std::move(l)); });
  return start_admin();
}

Status PickerProcess::start_admin() {
  admin::Options options{.host = options_.metrics_host,
                         .port = options_.metrics_port,
                         .ready_port = options_.ready_port,
                         .debug_token = {},
                         .tls = {}};
  LLMD_TRY_ASSIGN(options.tls, metrics_context(options_.tls, metrics_));
  if (options.tls) tls_reloader_.add(options.tls, "metrics", options_.tls.serving.reload);
  if (!options_.admin_token_file.empty()) {
    auto token = admin::read_token_file(options_.admin_token_file);
    if (!token)
      return fail(Code::kBadRequest, fmt::format("--admin-token-file: {}", token.error().message));
    options.debug_token = std::move(*token);
  }
  admin_.emplace(control_, options, metrics_, director_, [this]() -> std::string {
    return drain_.draining() ? "draining" : serving_ ? "" : "starting";
  });
  return admin_->listen();
}

void PickerProcess::every(io::Timer& timer, Nanos interval, std::function<void()> work) {
  timer.arm(interval, [this, &timer, interval, work = std::move(work)]() mutable {
    work();
    every(timer, interval, std::move(work));
  });
}

void PickerProcess::on_signal(int signal) {
  if (signal == SIGHUP) {
    if (reloader_) reloader_->reload();
    if (credentials_) credentials_->reload();
    tls_reloader_.reload();
  } else {
    drain_.on_signal(signal);
    if (on_drain_) on_drain_();
  }
}

int PickerProcess::run(FrontEnd front_end) {
  stop_ = std::move(front_end.stop);
  on_drain_ = std::move(front_end.on_drain);
  on_credentials_ = std::move(front_end.on_credentials);
  every(pool_timer_, options_.refresh_prometheus_metrics_interval,
        [this] { pool_metrics_.refresh(real_clock().now()); });
  every(reload_timer_, kReloadTick, [this] {
    if (reloader_) reloader_->tick();
    if (credentials_) credentials_->tick();
    if (objects_) objects_->tick();
  });
  serving_ = true;
  starting_.reset();
  log::info("serving", {{"address", front_end.address},
                        {"admin", fmt::format("{}:{}", options_.metrics_host, admin_->port())},
                        {"endpoints", fleet_.snapshot()->endpoints.size()},
                        {"loops", loops_}});
  control_.run("control");
  // They wake requests on the front end's loops.
  if (predictions_) predictions_->stop();
  renderers_.stop();
  if (flow_control_) flow_control_->stop();
  if (exporter_) exporter_->flush(kLastExportTimeout);
  return 0;
}

int run_picker(std::string_view command, const PickerOptions& options,
               const route::DirectorOptions& director,
               const std::function<Result<int>(PickerProcess&)>& serve) {
  int code = 2;
  std::optional<trace::Settings> tracing;
  if (options.tracing) {
    auto read = trace::read_settings(trace::process_environment(), kServiceName, LLMD_VERSION);
    if (!read) {
      std::fprintf(stderr, "llmd %.*s: %s\n", static_cast<int>(command.size()), command.data(),
                   read.error().message.c_str());
      return code;
    }
    tracing = std::move(*read);
  }
  {
    PickerProcess picker(options, director, std::move(tracing));
    // A thread, so only now that the picker has claimed the signals.
    log::start({.level = options.log_level, .format = options.log_format});
    Result<int> served = 0;
    if (auto started = picker.start(); !started)
      served = fail(std::move(started).error());
    else
      served = serve(picker);
    if (served)
      code = *served;
    else
      std::fprintf(stderr, "llmd %.*s: %s\n", static_cast<int>(command.size()), command.data(),
                   served.error().message.c_str());
  }
  log::stop();
  return code;
}

}  // namespace llmd
