#pragma once

#include "base/clock.h"
#include "http2/session.h"
#include "tls/stream.h"

namespace llmd::http2 {

/// How long a peer is waited for; 0: without end.
struct Timeouts {
  /// To the first SETTINGS, the connection's making and the TLS handshake included, and of a header
  /// block.
  Nanos handshake = std::chrono::seconds(10);
  Nanos write = std::chrono::seconds(60);  // with unsent bytes, none taken by the peer
  Nanos idle{0};                           // without a stream
};

/// A socket and its HTTP/2 session. Input goes through one buffer of the loop; output is gathered
/// at the end of the turn and sent in one call as far as the socket takes it. While the socket is
/// full nothing more is gathered, and what it did not take is kept here. Threading: one loop.
class Connection : public io::Pollable, public io::TurnTask, protected Session::Owner {
 public:
  ~Connection() override;

  void on_ready(uint32_t ready) override;
  void at_turn_end() override;

  /// Announces the end. The connection closes when its last stream is over and the peer has seen
  /// that, or has had a second to see it.
  void drain();
  /// Tells the streams and closes the socket; on_closed() comes at the end of the turn.
  void close(Error error = Error::kCancel);

 protected:
  /// `stream` is accepted, or, of a client, on its way.
  Connection(io::Loop& loop, tls::Stream stream, Session::Role role, const Limits& limits,
             const Counters& counters, const Timeouts& timeouts);

  /// Takes bytes that were read before the connection was this one's.
  void receive(std::string_view bytes);

  /// A client's connection stands. False: it is not what was wanted, and is closed.
  virtual bool on_established() { return true; }
  /// A time-out has passed; close() follows.
  virtual void on_timeout() {}
  /// The last call, not from within another. Destroys the connection.
  virtual void on_closed() = 0;

  io::Loop& loop_;
  tls::Stream stream_;
  Session session_;

 private:
  void output_ready() override;
  void read();
  void flush();
  bool send_gathered();
  void watch_head();
  void watch_idle();
  void time_out();

  const Timeouts timeouts_;
  bool established_;
  bool readable_ = false;
  bool blocked_ = false;  // the socket is full
  bool peer_gone_ = false;
  bool session_over_ = false;
  io::Timer write_timer_;
  io::Timer head_timer_;
  io::Timer idle_timer_;
  Gather gather_;
};

}  // namespace llmd::http2
