#include "service_command.h"

#include "command_line.h"

#include "base/log.h"
#include "base/rng.h"

#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <utility>

namespace llmd {

void add_service_flags(CLI::App& app, service::ServersOptions& o, const char* http_serves) {
  app.add_option("--host", o.host, "address to listen on")->capture_default_str();
  const std::string help = fmt::format("port of {}, /healthz and /metrics; 0: any", http_serves);
  add_port(app, "--http-port", o.http_port, help.c_str())->capture_default_str();
  app.add_option_function<uint16_t>(
         "--grpc-port",
         [&o](uint16_t port) {
           o.grpc_on_tcp = true;
           o.grpc_port = port;
         },
         fmt::format("port of the gRPC service; 0: any (default: {})",
                     o.grpc_on_tcp ? std::to_string(o.grpc_port) : "none"))
      ->check(CLI::Range(0, 65'535));
  app.add_option("--socket", o.socket_path, "unix socket of the gRPC service; '': none")
      ->capture_default_str();
}

ServiceLoop::ServiceLoop()
    : loop_(0, random_seed()), signals_(loop_, {SIGINT, SIGTERM}, [this](int) {
        const TimePoint now = loop_.clock().now();
        if (serving_) {
          since_ = now;
          std::exchange(serving_, nullptr)->stop(kGrace, [this] { loop_.stop(); });
        } else if (now - since_ >= Drain::kSameStop) {
          std::_Exit(1);
        }
      }) {
  signal(SIGPIPE, SIG_IGN);
  starting_.emplace();
}

Status ServiceLoop::serve(service::Servers& servers, const service::ServersOptions& options) {
  LLMD_TRY(servers.listen());
  serving_ = &servers;
  starting_.reset();
  log::info("serving", {{"http", fmt::format("{}:{}", options.host, servers.http_port())},
                        {"grpc", servers.grpc_port()},
                        {"socket", options.socket_path}});
  loop_.run("service");
  return {};
}

int exit_code(std::string_view command, const Status& outcome) {
  if (outcome) return 0;
  std::fprintf(stderr, "llmd %.*s: %s\n", static_cast<int>(command.size()), command.data(),
               outcome.error().message.c_str());
  return 2;
}

}  // namespace llmd
