#pragma once

#include "drain.h"
#include "picker_options.h"

#include "admin/server.h"
#include "base/result.h"
#include "config/loader.h"
#include "config/objects_dir.h"
#include "config/reload.h"
#include "fleet/discovery.h"
#include "fleet/fleet.h"
#include "fleet/pool_metrics.h"
#include "fleet/scraper.h"
#include "flow/service.h"
#include "frontend/credentials.h"
#include "io/loop.h"
#include "io/signals.h"
#include "metric/registry.h"
#include "plugin/registry.h"
#include "plugin/state_store.h"
#include "predict/prediction_client.h"
#include "render/renderers.h"
#include "route/director.h"
#include "tls/reloader.h"
#include "trace/exporter.h"
#include "trace/tracer.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace llmd {

/// What the serving commands have in common: the configuration and its reloads, the fleet, its
/// discovery and scraping, the admin port, signals. A front end goes on top. Threading: the main
/// thread, which runs the control loop within run().
class PickerProcess {
 public:
  explicit PickerProcess(PickerOptions options, route::DirectorOptions director = {},
                         std::optional<trace::Settings> tracing = {});

  /// Loads the configuration, finds the endpoints, opens the admin port. Errors are one line for
  /// the operator.
  Status start();

  struct FrontEnd {
    std::string address;              // for the log
    std::function<void(Nanos)> stop;  // ends serving; see Drain
    std::function<void()> on_drain;   // at the signal, on the control loop; may be empty
    /// Keys have changed; on the control loop; may be empty.
    std::function<void(const frontend::CredentialsPtr&)> on_credentials;
  };
  /// Serves until SIGTERM or SIGINT; returns the exit code. Requires: start(), and that the front
  /// end serves.
  int run(FrontEnd front_end);

  io::Loop& control() { return control_; }
  metric::Registry& metrics() { return metrics_; }
  fleet::Fleet& fleet() { return fleet_; }
  route::Director& director() { return director_; }
  /// Null when no file of keys was given.
  frontend::CredentialsPtr credentials() const {
    return credentials_ ? credentials_->current() : nullptr;
  }
  size_t loops() const { return loops_; }
  const fleet::UpstreamTls& upstream_tls() const { return upstream_tls_; }
  /// The TLS of the serving port, kept up to date; null when it is plain. Errors name the flag.
  Result<std::shared_ptr<tls::Context>> serving_tls(std::vector<std::string_view> protocols);
  bool draining() const { return drain_.draining(); }

 private:
  Result<std::unique_ptr<fleet::Discovery>> make_discovery(const config::Loaded& loaded);
  void publish(config::Loaded loaded);
  Status start_tls();
  Status start_tracing();
  Status read_credentials();
  void offer_predictions();
  void offer_renderers();
  void offer_flow_control();
  Status start_admin();
  void every(io::Timer& timer, Nanos interval, std::function<void()> work);
  void on_signal(int signal);
  void expose_build();

  const PickerOptions options_;
  const size_t loops_;
  const plugin::Registry plugins_;
  metric::Registry metrics_;
  const std::shared_ptr<void> process_metrics_;
  std::shared_ptr<predict::PredictionService> predictions_;  // null: no plugin has asked for it
  render::Renderers renderers_;
  plugin::StateStore state_;
  fleet::Fleet fleet_;
  std::unique_ptr<flow::Service> flow_control_;  // null: no configuration has asked for it
  io::Loop control_;
  const io::Signals signals_;
  std::optional<EndWhileStarting> starting_{std::in_place};
  const std::optional<trace::Settings> tracing_;
  const std::unique_ptr<trace::Tracer> tracer_;
  route::Director director_;
  std::optional<trace::Exporter> exporter_;
  tls::Reloader tls_reloader_;
  fleet::UpstreamTls upstream_tls_;
  std::optional<fleet::Scraper> scraper_;
  fleet::PoolMetrics pool_metrics_;
  std::optional<config::Reloader> reloader_;
  std::unique_ptr<frontend::CredentialFiles> credentials_;
  std::optional<config::ObjectsDirectory> objects_;
  std::optional<fleet::DiscoveryThread> discovery_;
  std::optional<admin::Server> admin_;
  io::Timer pool_timer_, reload_timer_;
  bool serving_ = false;
  std::function<void(Nanos)> stop_;
  std::function<void()> on_drain_;
  std::function<void(const frontend::CredentialsPtr&)> on_credentials_;
  Drain drain_;
};

/// Runs a command that is a picker with a front end: starts logging, then the picker, then calls
/// `serve`, whose value is the exit code. Faults at the start: one line on stderr, code 2.
int run_picker(std::string_view command, const PickerOptions& options,
               const route::DirectorOptions& director,
               const std::function<Result<int>(PickerProcess&)>& serve);

}  // namespace llmd
