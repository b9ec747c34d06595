#pragma once

#include "drain.h"

#include "base/result.h"
#include "io/loop.h"
#include "io/signals.h"
#include "service/servers.h"

#include <optional>
#include <string_view>

namespace CLI {
class App;
}

/// What commands that serve on one loop have in common.
namespace llmd {

/// The flags of where a service listens. `http_serves`: what is at its HTTP port, besides /healthz
/// and /metrics.
void add_service_flags(CLI::App& app, service::ServersOptions& options, const char* http_serves);

/// A loop that ends at SIGTERM or SIGINT: open requests may finish, for kGrace at most. A second
/// signal ends the process at once with code 1, as with Drain, one before serve() as with
/// EndWhileStarting.
class ServiceLoop {
 public:
  static constexpr Nanos kGrace = std::chrono::seconds(30);

  ServiceLoop();

  io::Loop& loop() { return loop_; }
  /// Listens and serves until the end. Errors name the address.
  Status serve(service::Servers& servers, const service::ServersOptions& options);

 private:
  io::Loop loop_;
  service::Servers* serving_ = nullptr;
  TimePoint since_{};  // the first signal
  const io::Signals signals_;
  std::optional<EndWhileStarting> starting_;
};

/// The exit code of a command that has come to this end: 2 after one line on stderr.
int exit_code(std::string_view command, const Status& outcome);

}  // namespace llmd
