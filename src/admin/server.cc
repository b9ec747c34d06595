#include "admin/server.h"

#include "endpoint_states.h"
#include "plugin_states.h"

#include "base/headers.h"
#include "base/secret.h"
#include "http/server.h"

#include <fmt/format.h>

namespace llmd::admin {
namespace {

constexpr HeaderField kText{"Content-Type", "text/plain; charset=utf-8"};
constexpr HeaderField kMetricsText{"Content-Type", "text/plain; version=0.0.4; charset=utf-8"};
constexpr HeaderField kJson{"Content-Type", "application/json"};

http::ServerOptions listener(const std::string& host, uint16_t port) {
  http::ServerOptions options;
  options.host = host;
  options.port = port;
  options.connections_max = 256;
  options.body_bytes_max = 0;
  return options;
}

}  // namespace

Result<std::string> read_token_file(const std::string& path) {
  LLMD_TRY_ASSIGN(const auto text, read_secret_file(path, 2 * kSecretBytesMax));
  return only_secret(text, path);
}

struct Server::State {
  metric::Registry& metrics;
  const route::Director& director;
  const std::string debug_token;
  const Clock& clock;
  std::function<std::string()> ready;
  std::unique_ptr<http::Server> main;
  std::unique_ptr<http::Server> health_only_server;

  class Handler final : public http::RequestHandler {
   public:
    Handler(State& state, bool health_only) : state_(state), health_only_(health_only) {}
    void on_request_end(http::Exchange& exchange, std::string_view) override {
      state_.answer(exchange, health_only_);
    }

   private:
    State& state_;
    const bool health_only_;
  };

  std::unique_ptr<http::Server> make(io::Loop& loop, http::ServerOptions options,
                                     bool health_only) {
    return std::make_unique<http::Server>(loop, std::move(options), [this, health_only] {
      return std::make_unique<Handler>(*this, health_only);
    });
  }

  /// Whether the peer may see the /debug pages.
  bool trusted(const http::Exchange& exchange) const {
    if (debug_token.empty()) return exchange.peer().is_loopback();
    return same_secret(bearer_token(exchange.head().headers.get("authorization")), debug_token);
  }

  void refuse(http::Exchange& exchange) const {
    if (debug_token.empty())
      return exchange.respond(403, {kText},
                              "debug pages answer on the loopback interface only; "
                              "--admin-token-file opens them to others\n");
    exchange.respond(401, {kText, {"WWW-Authenticate", "Bearer"}}, "a bearer token is needed\n");
  }

  void answer(http::Exchange& exchange, bool health_only) {
    const auto path = exchange.head().path();
    const auto method = exchange.head().method;
    const bool health = path == "/healthz" || path == "/readyz" || path == "/ready";
    const bool debug = path == "/debug/plugins/state" || path == "/debug/endpoints";
    if (!health && (health_only || !(debug || path == "/metrics")))
      return exchange.respond(404, {kText}, "not found\n");
    if (method != "GET" && method != "HEAD")
      return exchange.respond(405, {kText, {"Allow", "GET"}}, "method not allowed\n");
    if (path == "/metrics") return exchange.respond(200, {kMetricsText}, metrics.render());
    if (path == "/healthz") return exchange.respond(200, {kText}, "ok\n");
    if (health) {
      const std::string why = ready();
      return why.empty() ? exchange.respond(200, {kText}, "ok\n")
                         : exchange.respond(503, {kText}, why + "\n");
    }
    if (!trusted(exchange)) return refuse(exchange);
    if (path == "/debug/endpoints")
      return exchange.respond(200, {kJson},
                              endpoint_states(*director.fleet().snapshot(), clock.now()));
    const auto pipeline = director.pipeline();
    if (!pipeline) return exchange.respond(503, {kText}, "no configuration is loaded\n");
    exchange.respond(200, {kJson}, plugin_states(*pipeline, clock.wall()));
  }
};

Server::Server(io::Loop& loop, const Options& options, metric::Registry& metrics,
               const route::Director& director, std::function<std::string()> ready)
    : state_(new State{metrics, director, options.debug_token, loop.clock(), std::move(ready),
                       nullptr, nullptr}) {
  auto main = listener(options.host, options.port);
  main.tls = options.tls;
  state_->main = state_->make(loop, std::move(main), false);
  if (options.ready_port != 0)
    state_->health_only_server =
        state_->make(loop, listener(options.host, options.ready_port), true);
}

Server::~Server() = default;

Status Server::listen() {
  LLMD_TRY(state_->main->listen());
  if (state_->health_only_server) LLMD_TRY(state_->health_only_server->listen());
  return {};
}

uint16_t Server::port() const {
  return state_->main->port();
}

}  // namespace llmd::admin
