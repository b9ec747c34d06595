#pragma once

#include "call_stream.h"

#include "http2/connection.h"

#include <atomic>
#include <list>

namespace llmd::grpc {

class Connection;

/// What a Server and its connections share.
struct Server::State final : io::Pollable {
  State(io::Loop& loop, ServerOptions options, std::vector<Method> methods, io::ByteBudget& budget,
        ServerMetrics metrics)
      : context(loop, std::move(options), std::move(methods), budget, metrics),
        accept_retry(loop) {}

  void on_ready(uint32_t ready) override;
  void accept_all();
  void stop_listening();
  void add(io::Fd fd);
  void erase(Connection& connection);
  void finish_stop();
  /// Ends all connections; their calls end because the server stops.
  void close_all();

  ServerContext context;
  io::Fd listener;
  uint16_t port = 0;
  bool stopping = false;
  std::move_only_function<void()> on_stopped;
  io::Timer accept_retry;
  std::unique_ptr<io::Timer> grace;
  std::list<Connection> connections;
  std::atomic<size_t> connection_count{0};                 // those handed over included
  std::shared_ptr<void> alive = std::make_shared<int>(0);  // guards posted work
};

/// One client's connection.
class Connection final : public http2::Connection {
 public:
  Connection(Server::State& server, io::Fd fd, io::PeerLimit::Place place)
      : http2::Connection(
            server.context.loop,
            tls::Stream(std::move(fd), server.context.options.tls, server.context.loop.buffers()),
            http2::Session::Role::kServer, server.context.limits(), server.context.counters(),
            {.handshake = server.context.options.handshake_timeout,
             .write = server.context.options.write_timeout}),
        server_(server),
        place_(std::move(place)) {
    server.context.metrics.connections.add(1);
  }
  ~Connection() override { server_.context.metrics.connections.add(-1); }

  std::list<Connection>::iterator self;

 private:
  std::unique_ptr<http2::Stream> open_stream() override {
    return std::make_unique<CallStream>(server_.context);
  }
  void on_timeout() override { server_.context.metrics.timeouts.add(); }
  void on_closed() override { server_.erase(*this); }

  Server::State& server_;
  const io::PeerLimit::Place place_;
};

}  // namespace llmd::grpc
