#pragma once

#include "http2_session.h"

#include "grpc/server.h"
#include "tls/stream.h"
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
  void add(io::Fd fd);
  void erase(Connection& connection);
  void finish_stop();

  SessionContext context;
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

/// One client's socket and its HTTP/2 session. Input goes through one buffer of the loop; output is
/// gathered at the end of the turn and sent in one call as far as the socket takes it. While the
/// socket is full nothing more is gathered, and what it did not take is kept here. A closed
/// connection lives until the end of the turn.
class Connection final : public io::Pollable, public io::TurnTask, Http2Session::Carrier {
 public:
  Connection(Server::State& server, io::Fd fd, io::PeerLimit::Place place);
  ~Connection() override;

  void on_ready(uint32_t ready) override;
  void at_turn_end() override;
  void output_ready() override;

  void drain();
  void close(StatusCode why);

  std::list<Connection>::iterator self;

 private:
  void read();
  void flush();
  bool send_gathered();
  void watch_head();

  Server::State& server_;
  const io::PeerLimit::Place place_;
  tls::Stream stream_;
  bool readable_ = false;
  bool blocked_ = false;  // the socket is full
  bool peer_gone_ = false;
  bool session_over_ = false;
  io::Timer write_timer_;
  io::Timer head_timer_;
  Gather gather_;
  Http2Session session_;
};

}  // namespace llmd::grpc
