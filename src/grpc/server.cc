#include "grpc/server.h"

#include "connection.h"

#include "base/check.h"
#include "io/accept.h"
#include "io/unix_socket.h"

#include <array>
#include <unistd.h>

namespace llmd::grpc {

ServerMetrics ServerMetrics::of(metric::Registry& registry) {
  auto& limits = registry.family({"llmd_grpc_limits_total",
                                  metric::Kind::kCounter,
                                  "Times that a gRPC peer met a limit of the server.",
                                  {"limit"},
                                  {},
                                  {}});
  const auto limit = [&](std::string_view name) {
    return limits.counter(std::array<std::string_view, 1>{name});
  };
  return {.connections = registry
                             .family({"llmd_grpc_connections",
                                      metric::Kind::kGauge,
                                      "Open connections of gRPC peers.",
                                      {},
                                      {},
                                      {}})
                             .gauge({}),
          .connections_refused = limit("connections"),
          .peers_refused = limit("connections-per-peer"),
          .streams_refused = limit("streams"),
          .headers_refused = limit("header-list"),
          .messages_refused = limit("message"),
          .resets_refused = limit("resets"),
          .control_frames_refused = limit("control-frames"),
          .stalls = limit("stream-output"),
          .timeouts = limit("timeout"),
          .protocol_errors = limit("protocol")};
}

void Server::State::on_ready(uint32_t ready) {
  if (ready & io::kReadable) accept_all();
}

void Server::State::accept_all() {
  while (listener) {
    bool exhausted = false;
    io::Fd fd = io::accept_next(listener, exhausted);
    if (exhausted) accept_retry.arm(io::kAcceptRetry, [this] { accept_all(); });
    if (!fd) return;
    ++connection_count;
    add(std::move(fd));
  }
}

/// Serves `fd`, which is counted already.
void Server::State::add(io::Fd fd) {
  const size_t max = context.options.connections_max;
  if (stopping || (max > 0 && connections.size() >= max)) {
    if (!stopping) context.metrics.connections_refused.add();
    --connection_count;
    return;
  }
  io::PeerLimit::Place place;
  if (const auto& limit = context.options.peer_limit) {
    place = limit->take(io::SocketAddress::of(fd.get(), true));
    if (!place) {
      context.metrics.peers_refused.add();
      --connection_count;
      return;
    }
  }
  connections.emplace_front(*this, std::move(fd), std::move(place));
  connections.front().self = connections.begin();
}

void Server::State::erase(Connection& connection) {
  connections.erase(connection.self);
  --connection_count;
  if (stopping && connections.empty()) finish_stop();
}

/// The path of a unix socket goes first: nobody else takes it while it is listened on.
void Server::State::stop_listening() {
  if (!listener) return;
  context.loop.forget(*this);
  if (const auto& path = context.options.socket_path; !path.empty()) ::unlink(path.c_str());
  listener.reset();
}

void Server::State::close_all() {
  context.closing = StatusCode::kUnavailable;
  for (auto& connection : connections) connection.close();
}

void Server::State::finish_stop() {
  if (grace) grace->cancel();
  if (auto done = std::exchange(on_stopped, {})) done();
}

Server::Server(io::Loop& loop, ServerOptions options, std::vector<Method> methods,
               io::ByteBudget& budget, ServerMetrics metrics)
    : state_(
          std::make_unique<State>(loop, std::move(options), std::move(methods), budget, metrics)) {}

Server::~Server() {
  State& state = *state_;
  state.on_stopped = {};
  state.stop_listening();
  state.close_all();
  state.connections.clear();
}

Status Server::listen() {
  State& state = *state_;
  const auto& options = state.context.options;
  if (!options.socket_path.empty()) {
    LLMD_TRY_ASSIGN(state.listener, io::listen_unix(options.socket_path));
    state.context.loop.watch(state.listener.get(), state);
    return {};
  }
  LLMD_TRY_ASSIGN(auto address, io::SocketAddress::parse(options.host, options.port));
  LLMD_TRY_ASSIGN(state.listener, io::listen_tcp(address));
  io::set_no_delay(state.listener.get());  // accepted sockets inherit it
  state.port = io::SocketAddress::of(state.listener.get()).port();
  state.context.loop.watch(state.listener.get(), state);
  return {};
}

uint16_t Server::port() const {
  return state_->port;
}

void Server::hand_over(io::Fd connection) {
  State& state = *state_;
  ++state.connection_count;
  state.context.loop.post(
      [&state, guard = std::weak_ptr(state.alive), fd = std::move(connection)]() mutable {
        if (guard.lock()) state.add(std::move(fd));
      });
}

void Server::stop(Nanos grace, std::move_only_function<void()> done) {
  State& state = *state_;
  CHECK(!state.stopping);
  state.stopping = true;
  state.on_stopped = std::move(done);
  state.stop_listening();
  state.accept_retry.cancel();
  for (auto& connection : state.connections) connection.drain();
  if (state.connections.empty()) return state.finish_stop();
  state.grace = std::make_unique<io::Timer>(state.context.loop);
  state.grace->arm(grace, [&state] { state.close_all(); });
}

size_t Server::connections() const {
  return state_->connection_count;
}
size_t Server::open_calls() const {
  return state_->context.open_calls;
}

}  // namespace llmd::grpc
