#pragma once

#include "base/result.h"
#include "http/message.h"
#include "http/server_probe.h"
#include "io/byte_budget.h"
#include "io/loop.h"
#include "io/peer_limit.h"
#include "io/socket.h"
#include "tls/context.h"

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace llmd::http {

/// One request being answered: the current one of an HTTP/1.1 connection, reused for the
/// connection's next request, or a stream of an HTTP/2 connection. A handler may keep the reference
/// until it has answered or on_abort() was called, and answer at any later time on the loop.
///
/// An answer is either respond(), or start() followed by write() until one has `last`. Writing to
/// an exchange that is aborted or answered does nothing. Threading: the server's loop.
class Exchange {
 public:
  /// Valid until the exchange has ended.
  virtual const RequestHead& head() const = 0;
  virtual io::Loop& loop() const = 0;
  virtual io::SocketAddress peer() const = 0;

  /// Makes on_body() deliver only new bytes and keep none, for handlers that pass them on. How
  /// large an HTTP/2 body may become is then theirs to say. Requires: called from on_request().
  virtual void stream_body() = 0;
  /// Stops and restarts the reading of a streamed body; the client's window then fills and it has
  /// to wait. At most a window's worth is delivered after pause_body().
  virtual void pause_body() = 0;
  virtual void resume_body() = 0;

  /// The whole answer at once, in one system call when the socket has room. Content-Length,
  /// Connection and (for statuses without a body) its absence are taken care of: `headers` must not
  /// hold Content-Length, Transfer-Encoding or Connection. `headers` and `body` are needed only
  /// during the call. HEAD requests get the head alone.
  virtual void respond(int status, std::span<const HeaderField> headers, std::string_view body) = 0;
  void respond(int status, std::initializer_list<HeaderField> headers, std::string_view body) {
    respond(status, std::span(headers.begin(), headers.size()), body);
  }

  /// Begins a streamed answer of `length` bytes, or a chunked one when it is unknown (to an
  /// HTTP/1.0 client: up to the end of the connection). The head goes out with the first write(),
  /// or at the end of the turn without one.
  virtual void start(int status, std::span<const HeaderField> headers,
                     std::optional<uint64_t> length) = 0;
  void start(int status, std::span<const HeaderField> headers) { start(status, headers, {}); }
  void start(int status, std::initializer_list<HeaderField> headers,
             std::optional<uint64_t> length = {}) {
    start(status, std::span(headers.begin(), headers.size()), length);
  }
  /// Sends `data` (one chunk, when chunked); with `last` the answer is complete. What is not taken
  /// at once is copied, so `data` is needed only during the call. Returns false when bytes are
  /// waiting: a polite writer goes on at on_writable(). Requires: start() was called; `last` comes
  /// exactly at `length` bytes (a shorter answer is shown as a break).
  virtual bool write(std::string_view data, bool last) = 0;
  bool write(std::string_view data) { return write(data, false); }
  /// Ends a started answer with trailers, which HTTP/1.1 clients do not get.
  virtual void finish(std::span<const HeaderField> trailers) = 0;
  /// An interim answer (1xx) before the final one. Not sent to HTTP/1.0 clients.
  virtual void inform(int status, std::span<const HeaderField> headers) = 0;

  /// Breaks the answer off at once, whatever was sent so far: how a break behind us is shown to the
  /// client. Closes an HTTP/1.1 connection, resets an HTTP/2 stream. The handler hears nothing more
  /// of this exchange.
  virtual void abort() = 0;

  /// Bytes written but not yet taken by the socket.
  virtual size_t unsent() const = 0;
  virtual bool started() const = 0;
  virtual bool ended() const = 0;
  /// When the first byte of the request was read, and the last one (epoch before that).
  virtual TimePoint began() const = 0;
  virtual TimePoint received() const = 0;

 protected:
  Exchange() = default;
  ~Exchange() = default;
};

/// Why an exchange is over before its answer was.
enum class AbortCause : uint8_t {
  kClientGone,     // it has closed, or reset the stream
  kClientStalled,  // it has taken nothing of its answer for ServerOptions::write_timeout
  kBadRequest,     // no more of its request can be taken
  kShutdown,       // the server ends
};

/// Answers the requests of one HTTP/1.1 connection, one after the other, or the one of an HTTP/2
/// stream. Destroyed when the connection, or the stream, has ended. Calls per exchange, in order:
/// on_request, on_body*, on_request_end; on_writable whenever unsent bytes have gone out; on_abort
/// or on_refused at most once, last.
///
/// The next request of a connection is announced only after the call in which the last answer was
/// completed has returned to the loop.
class RequestHandler {
 public:
  virtual ~RequestHandler() = default;

  /// The head has arrived. May answer at once: the body is then not read and the connection ends
  /// after the answer.
  virtual void on_request(Exchange&) {}
  /// More of the body has arrived: `body` is all of it so far, contiguous (it may move between
  /// calls), or only the new bytes after stream_body(). Not called for a body that arrives whole:
  /// on_request_end() has it.
  virtual void on_body(Exchange&, std::string_view) {}
  /// The request is complete. `body` is all of it and stays where it is until the exchange ends; ""
  /// after stream_body().
  virtual void on_request_end(Exchange& exchange, std::string_view body) = 0;
  /// All bytes written have been taken by the socket after write() had returned false.
  virtual void on_writable(Exchange&) {}
  /// No more of the request can be taken: it is too large, too slow or malformed, or there is no
  /// room for it. `status` and `what` are for its client. With HTTP/2, and for a body that is known
  /// to be too large, this may come in place of on_request(). May respond(); whoever does not
  /// leaves that to the server.
  virtual void on_refused(Exchange& exchange, int /*status*/, std::string_view /*what*/) {
    on_abort(exchange, AbortCause::kBadRequest);
  }
  /// The exchange is over, and nothing can be answered.
  virtual void on_abort(Exchange&, AbortCause) {}
};

struct ServerOptions {
  std::string host = "0.0.0.0";  // address literal
  uint16_t port = 0;             // 0: chosen by the system
  bool shared_port = false;      // SO_REUSEPORT: one server per loop on the same port
  int backlog = 1024;
  size_t connections_max = 0;  // beyond it accepting pauses; 0: no limit
  size_t head_bytes_max = 64 * 1024;
  size_t headers_max = 256;              // lines
  uint64_t body_bytes_max = 512u << 20;  // beyond it: 413
  /// From a request's first byte to the end of its head; with TLS also for the handshake and up to
  /// the first request's first byte.
  Nanos head_timeout = std::chrono::seconds(30);
  Nanos body_timeout = std::chrono::seconds(60);     // between two arrivals of body bytes
  Nanos request_timeout = std::chrono::minutes(10);  // from a request's first byte to its last
  Nanos idle_timeout = std::chrono::seconds(300);    // of a kept-alive connection
  Nanos write_timeout =
      std::chrono::seconds(60);  // with unsent bytes, without the client taking any
  /// Closes what a peer opens beyond its share; one for all servers of a process. Null: no limit.
  std::shared_ptr<io::PeerLimit> peer_limit;
  /// Bounds the request bodies that are held at a time, beyond what fits behind their heads; more
  /// get 503. One for all servers of a process. Null: no limit.
  std::shared_ptr<io::ByteBudget> body_budget;
  /// HTTP/2 for clients that begin with its preface, or that TLS agrees on it with.
  bool http2 = false;
  uint32_t streams_max = 256;  // of an HTTP/2 connection at once
  /// Streams that a client may reset before they were answered, and PING, SETTINGS, PRIORITY and
  /// empty DATA frames that it may send, on average after a burst of ten seconds' worth; more ends
  /// its connection.
  uint32_t resets_per_second = 100;
  uint32_t control_frames_per_second = 100;
  std::optional<ServerProbe> probe;   // none: limits are not counted
  std::shared_ptr<tls::Context> tls;  // null: plain HTTP
};

/// What a client is told whose request body has more bytes than that.
inline std::string body_too_large(uint64_t bytes_max) {
  return "request body too large: more than " + std::to_string(bytes_max) + " bytes";
}

/// An HTTP/1.1 server on one loop, with TLS or without, that speaks HTTP/2 on the same port where
/// it is told to. Requests that break the protocol are refused (400, 413, 431, 501, 505) and their
/// connection is closed; see parser.h for what is strict. A client that goes away, half-closing
/// included, aborts its exchange. Cost of a small request in steady state: one read, one write, no
/// allocation. Threading: the loop's thread; construct and destroy there too, or while the loop
/// does not run.
class Server {
 public:
  /// Called once per HTTP/1.1 connection and per HTTP/2 stream.
  using HandlerFactory = std::move_only_function<std::unique_ptr<RequestHandler>()>;

  Server(io::Loop& loop, ServerOptions options, HandlerFactory factory);
  /// Aborts all open exchanges.
  ~Server();

  /// Starts to accept. Errors name the address.
  Status listen();
  uint16_t port() const;
  /// Serves an accepted, non-blocking connection that comes from elsewhere.
  void adopt(io::Fd connection);

  /// Stops accepting, closes idle connections on which no request waits, lets open exchanges finish
  /// (each answer says `Connection: close`; HTTP/2 clients get a GOAWAY), and after `grace` aborts
  /// the rest. `done` runs when no connection is left. Call once.
  void stop(Nanos grace, std::move_only_function<void()> done = {});

  size_t connections() const;
  /// Requests being received or answered. Threading: any.
  size_t open_exchanges() const;

 private:
  friend class ServerConnection;
  friend class Http2Connection;
  friend class Http2Exchange;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace llmd::http
