#pragma once

#include "http/client.h"
#include "io/byte_budget.h"

#include <memory>
#include <span>
#include <string_view>

namespace llmd::http {

/// The head of a request over HTTP/2. `headers` must hold nothing that belongs to an HTTP/1.1
/// connection, and no Host.
struct Http2Request {
  std::string_view method = "POST";
  std::string_view target = "/";
  std::string_view authority;
  std::span<const HeaderField> headers;
  bool last = false;  // there is no body
};

class Http2Client;
class Http2CallStream;

/// One request over HTTP/2 and its answer, both streamed side by side; for gRPC. Like Call, but
/// that the body of the request is written bit by bit, trailers are heard, and destroying or
/// aborting it resets its stream only. Threading: the client's loop.
class Http2Call final : io::TurnTask {
 public:
  Http2Call(Http2Client& client, CallHandler& handler) : client_(client), handler_(handler) {}
  ~Http2Call() override { abort(); }

  /// Requires: not active. Failures are reported from the loop, never from within.
  void start(const Destination& destination, const Http2Request& request);
  /// Sends more of the request's body, which is copied; with `last` it is complete. False: bytes
  /// are waiting, and on_request_drained() tells when they are gone.
  bool write(std::string_view data, bool last);
  /// Ends the call; its handler hears nothing more. Idempotent.
  void abort();

  /// Stops and restarts the reading of the answer. At most a window's worth is delivered after
  /// pause().
  void pause();
  void resume();

  bool active() const { return stream_ != nullptr || failed_; }

 private:
  friend class Http2CallStream;
  void at_turn_end() override;

  Http2Client& client_;
  CallHandler& handler_;
  Http2CallStream* stream_ = nullptr;
  bool failed_ = false;  // no connection; reported at the end of the turn
};

/// HTTP/2 connections of one loop to any number of servers: over TLS where the destination says so
/// (ALPN), else with prior knowledge. A connection carries as many calls as the server lets it;
/// beyond them another is made. Threading: the loop's thread.
class Http2Client {
 public:
  /// `budget` bounds nothing; it counts what is buffered. It outlives the client.
  Http2Client(io::Loop& loop, ClientOptions options, io::ByteBudget& budget);
  /// Requires: no call is active.
  ~Http2Client();

  io::Loop& loop() const;
  /// Connections to `destination` take no further calls.
  void purge(const Destination& destination);
  size_t connections() const;

 private:
  friend class Http2Call;
  friend class Http2CallStream;
  friend class Http2ClientConnection;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace llmd::http
