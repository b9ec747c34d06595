#include "http/server.h"

#include "http2_server.h"
#include "server_connection.h"

#include "base/check.h"
#include "io/accept.h"

namespace llmd::http {

Server::State::State(io::Loop& l, ServerOptions o, HandlerFactory f)
    : loop(l), options(std::move(o)), factory(std::move(f)), accept_retry(l) {}
Server::State::~State() = default;

void Server::State::on_ready(uint32_t ready) {
  if (ready & io::kReadable) accept_all();
}

void Server::State::accept_all() {
  accept_paused = false;
  while (listener) {
    if (options.connections_max > 0 && connection_count() >= options.connections_max) {
      accept_paused = true;
      count(ClientLimit::kConnections);
      return;
    }
    bool exhausted = false;
    io::Fd fd = io::accept_next(listener, exhausted);
    if (exhausted) accept_retry.arm(io::kAcceptRetry, [this] { accept_all(); });
    if (!fd) return;
    add(std::move(fd));
  }
}

void Server::State::add(io::Fd fd) {
  io::PeerLimit::Place place;
  if (options.peer_limit) {
    place = options.peer_limit->take(io::SocketAddress::of(fd.get(), true));
    if (!place) return count(ClientLimit::kConnectionsPerPeer);
  }
  connections.emplace_front(*this, std::move(fd), std::move(place));
  connections.front().self = connections.begin();
}

size_t Server::State::connection_count() const {
  return connections.size() + http2_connections.size();
}

void Server::State::erase(ServerConnection& connection) {
  connections.erase(connection.self);
  left();
}

void Server::State::erase(Http2Connection& connection) {
  http2_connections.erase(connection.self);
  left();
}

void Server::State::switch_to_http2(tls::Stream stream, io::PeerLimit::Place place,
                                    std::string_view read) {
  auto& connection = http2_connections.emplace_front(*this, std::move(stream), std::move(place));
  connection.self = http2_connections.begin();
  connection.begin(read);
  if (stopping) connection.drain();
}

/// Ends every exchange and connection.
void Server::State::cut_off() {
  cutting_off = true;
  for (auto& connection : connections) connection.abort_exchange(AbortCause::kShutdown);
  for (auto& connection : http2_connections) connection.close();
}

void Server::State::left() {
  if (stopping && connection_count() == 0) return finish_stop();
  if (accept_paused) accept_all();
}

void Server::State::finish_stop() {
  if (grace) grace->cancel();
  if (auto done = std::exchange(on_stopped, {})) done();
}

Server::Server(io::Loop& loop, ServerOptions options, HandlerFactory factory)
    : state_(std::make_unique<State>(loop, std::move(options), std::move(factory))) {}

Server::~Server() {
  State& state = *state_;
  state.on_stopped = {};
  if (state.listener) state.loop.forget(state);
  state.listener.reset();
  state.cut_off();
  state.connections.clear();
  state.http2_connections.clear();
}

Status Server::listen() {
  State& state = *state_;
  LLMD_TRY_ASSIGN(auto address, io::SocketAddress::parse(state.options.host, state.options.port));
  LLMD_TRY_ASSIGN(state.listener,
                  io::listen_tcp(address, state.options.shared_port, state.options.backlog));
  io::set_no_delay(state.listener.get());  // accepted sockets inherit it
  state.port = io::SocketAddress::of(state.listener.get()).port();
  state.loop.watch(state.listener.get(), state);
  return {};
}

uint16_t Server::port() const {
  return state_->port;
}

void Server::adopt(io::Fd connection) {
  state_->add(std::move(connection));
}

void Server::stop(Nanos grace, std::move_only_function<void()> done) {
  State& state = *state_;
  CHECK(!state.stopping);
  state.stopping = true;
  state.on_stopped = std::move(done);
  state.accept_all();  // closing the listener would reset those that are established
  if (state.listener) state.loop.forget(state);
  state.listener.reset();
  state.accept_retry.cancel();
  for (auto& connection : state.connections) connection.stop_when_idle();
  for (auto& connection : state.http2_connections) connection.drain();
  if (state.connection_count() == 0) return state.finish_stop();
  state.grace = std::make_unique<io::Timer>(state.loop);
  state.grace->arm(grace, [&state] { state.cut_off(); });
}

size_t Server::connections() const {
  return state_->connection_count();
}
size_t Server::open_exchanges() const {
  return state_->open_exchanges;
}

}  // namespace llmd::http
