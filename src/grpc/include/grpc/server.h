#pragma once

#include "base/clock.h"
#include "base/result.h"
#include "grpc/status.h"
#include "http2/output.h"
#include "io/byte_budget.h"
#include "io/loop.h"
#include "io/peer_limit.h"
#include "io/socket.h"
#include "metric/registry.h"
#include "tls/context.h"

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace llmd::grpc {

/// A part of a message to send. `stays`: until the call's handler is destroyed.
using Piece = http2::Piece;

/// One RPC of any kind: messages come and go in any order until it is finished. Threading: the
/// server's loop. Lifetime: as long as its handler.
class Call {
 public:
  /// Sends one message, the concatenation of `pieces`. It goes out at the end of the turn, as far
  /// as the peer's windows let it. Does nothing once the call has ended.
  void send(std::span<const Piece> pieces);
  void send(std::initializer_list<Piece> pieces) { send(std::span(pieces.begin(), pieces.size())); }
  /// Ends the call after what was sent. The handler hears nothing more.
  void finish(StatusCode code, std::string_view message = {});

  bool ended() const;
  /// The W3C trace context in the call's metadata; "" when there is none.
  std::string_view traceparent() const;
  io::Loop& loop() const;

 protected:
  Call() = default;
  ~Call() = default;
};

/// Serves one call. Destroyed when the call's last byte is out or its peer is gone.
class CallHandler {
 public:
  virtual ~CallHandler() = default;
  /// A message has arrived; the view is valid during the call. May send and finish.
  virtual void on_message(std::string_view message) = 0;
  /// The client has sent all its messages.
  virtual void on_half_close() = 0;
  /// The call is over before finish(): the client has cancelled or is gone (kCancelled), its
  /// deadline has passed (kDeadlineExceeded), it broke a limit (kResourceExhausted), or the server
  /// stops (kUnavailable). Must not touch other calls.
  virtual void on_abort(StatusCode why) = 0;
};

/// Makes the handler of a call to one method; the call outlives the handler.
using OpenCall = std::function<std::unique_ptr<CallHandler>(Call&)>;
struct Method {
  std::string path;  // "/package.Service/Method"
  OpenCall open;
};

struct ServerOptions {
  std::string host = "0.0.0.0";  // address literal
  uint16_t port = 0;             // 0: chosen by the system
  std::string socket_path;       // of a unix socket to listen on instead; "": none
  size_t connections_max = 0;    // more are closed at once; 0: no limit
  /// Closes what a peer opens beyond its share; one for all servers of a process. Null: no limit.
  std::shared_ptr<io::PeerLimit> peer_limit;
  uint32_t streams_max = 256;                  // concurrent calls of a connection
  uint32_t header_list_bytes_max = 64 * 1024;  // of a call, uncompressed, 32 more per line
  /// Received, and once decompressed; larger ends the call: RESOURCE_EXHAUSTED.
  size_t message_bytes_max = 4u << 20;
  uint32_t stream_window_bytes = 128 * 1024;
  uint32_t connection_window_bytes = 8u << 20;
  /// A call with more unsent bytes of its own than this is granted no further window, so a stalled
  /// call holds at most this and stream_window_bytes.
  size_t stream_output_bytes_max = 128 * 1024;
  /// Calls that a peer may reset before they have sent anything, per second on average, after a
  /// burst of ten seconds' worth; beyond it the connection ends (ENHANCE_YOUR_CALM).
  uint32_t resets_per_second = 100;
  /// The same for PING, SETTINGS, PRIORITY and empty DATA frames.
  uint32_t control_frames_per_second = 100;
  /// To the first SETTINGS, the TLS handshake included, and of a header block.
  Nanos handshake_timeout = std::chrono::seconds(10);
  Nanos write_timeout = std::chrono::seconds(60);  // with unsent bytes, none taken by the peer
  std::shared_ptr<tls::Context> tls;               // null: plain TCP
};

/// Counters of reached limits, by the label `limit`. Handles write nothing by default.
struct ServerMetrics {
  metric::Gauge connections;
  metric::Counter connections_refused, peers_refused, streams_refused, headers_refused,
      messages_refused, resets_refused, control_frames_refused, stalls, timeouts, protocol_errors;
  static ServerMetrics of(metric::Registry& registry);
};

/// A gRPC server on one loop: HTTP/2 over TLS, or with prior knowledge over TCP.
///
/// Flow control: the connection's window is given back on receipt, so a stalled call never stops
/// the others; a call's window follows its unsent output. Output obeys the peer's windows.
/// Messages may be compressed with gzip; other encodings are refused (UNIMPLEMENTED). Threading:
/// the loop's thread, except hand_over() and the counts; construct and destroy there too, or while
/// the loop does not run.
class Server {
 public:
  /// `budget` bounds what is buffered, over all servers that share it, and outlives them.
  Server(io::Loop& loop, ServerOptions options, std::vector<Method> methods, io::ByteBudget& budget,
         ServerMetrics metrics = {});
  /// Aborts all calls.
  ~Server();

  /// Starts to accept on a listener of its own. Errors name the address.
  Status listen();
  uint16_t port() const;
  /// Serves an accepted, non-blocking connection that comes from elsewhere. Threading: any.
  void hand_over(io::Fd connection);

  /// Stops accepting, sends GOAWAY, lets open calls finish, and after `grace` aborts the rest.
  /// `done` runs when no connection is left. Call once.
  void stop(Nanos grace, std::move_only_function<void()> done = {});

  /// Connections served or handed over. Threading: any.
  size_t connections() const;
  /// Calls not yet ended. Threading: any.
  size_t open_calls() const;

 private:
  struct State;
  friend class Connection;
  std::unique_ptr<State> state_;
};

}  // namespace llmd::grpc
