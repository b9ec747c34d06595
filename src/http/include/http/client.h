#pragma once

#include "http/message.h"
#include "io/loop.h"
#include "io/socket.h"
#include "tls/context.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace llmd::http {

/// Where a request goes. Connections are kept per (address, generation), so one made to an earlier
/// server at the same address is never used for its successor.
struct Destination {
  io::SocketAddress address;
  uint64_t generation = 0;
  /// Whom to find there through TLS; null: plain HTTP. One per address and generation.
  std::shared_ptr<tls::Target> tls;
  /// Of a unix socket in the place of the address; "": none.
  std::string unix_path = {};
};

/// How a call failed. After the first three no server has seen the whole request.
enum class Failure : uint8_t {
  kConnect,   // no connection could be made, TLS included, in time
  kStale,     // a kept connection had been closed before anything of the request reached its end
  kUnsent,    // closed or reset before the request had been handed over whole
  kReset,     // closed or reset after that, before any byte of the answer
  kBroken,    // closed or reset after the first byte of the answer
  kTimeout,   // no answer, or no more of it, in time
  kProtocol,  // the answer is not valid HTTP/1.1
};
/// For people: "cannot connect".
std::string_view text_of(Failure failure);

/// Hears the answer to one Call. Each function may abort() or destroy the call, and start it anew
/// from the last ones (on_data with `last`, on_failure).
class CallHandler {
 public:
  /// The connection is there and the system has taken the first bytes of the request, which were
  /// offered to it at `offered`. (Over loopback, the call that takes them also runs the receiver.)
  virtual void on_sent(TimePoint /*offered*/) {}
  /// An interim (1xx) answer. Upgrades (101) count as kProtocol.
  virtual void on_inform(const ResponseHead&) {}
  /// The head of the answer; it may come before the request has been sent. Views are valid during
  /// the call.
  virtual void on_response(const ResponseHead& head) = 0;
  /// Decoded bytes of the answer's body: all that one read brought, so one write passes them on.
  /// With `last` the answer is complete
  /// (`data` may then be empty) and the call has ended.
  virtual void on_data(std::string_view data, bool last) = 0;
  /// Trailers, before the last on_data(). HTTP/2 only.
  virtual void on_trailers(HeaderView) {}
  /// All bytes of the request are gone after Http2Call::write() had returned false.
  virtual void on_request_drained() {}
  /// The call has ended without a complete answer.
  virtual void on_failure(Failure failure) = 0;

 protected:
  ~CallHandler() = default;
};

/// What to send. `Host`, `Content-Length` and framing come from the call: `headers` must not hold
/// Host, Content-Length, Transfer-Encoding or Connection.
struct CallRequest {
  std::string_view method = "GET";
  std::string_view target = "/";
  std::string_view host;  // value of the Host header
  std::span<const HeaderField> headers;
  std::span<const std::string_view> body;  // pieces, sent one after the other
  /// Send Content-Length: 0 for an empty body (POST, PUT and PATCH do so anyway).
  bool explicit_length = false;
  /// Not over a kept connection.
  bool fresh_connection = false;
};

struct ClientOptions {
  Nanos connect_timeout = std::chrono::seconds(2);  // the TLS handshake included
  Nanos response_timeout{0};  // from the last bytes sent to the head of the answer; 0: none
  Nanos body_timeout{0};      // between two reads of the answer's body, while not paused; 0: none
  Nanos idle_timeout = std::chrono::seconds(
      4);  // of a kept connection; below the 5 s after which common servers close theirs
  size_t idle_max = 1024;  // kept connections per destination; 0: none is reused
  /// A call that finds its kept connection stale is sent once more over a new one; otherwise it
  /// fails with kStale.
  bool resend_stale = true;
  size_t head_bytes_max = 64 * 1024;
  size_t headers_max = 256;
};

class Client;
struct ClientConnection;

/// One request and its answer, over a kept or a new connection. Embed it; it may be used for many
/// requests, one after the other. Destroying or aborting it closes its connection at once.
///
/// A kept connection may turn out to be stale: the server closed it while the request was on its
/// way. The kernel knows whether the server's end has acknowledged any byte of the request, so this
/// is told apart from a server that took the request and then died.
class Call {
 public:
  Call(Client& client, CallHandler& handler) : client_(&client), handler_(&handler) {}
  ~Call() { abort(); }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  /// Requires: not active. The strings behind `request` are needed during the call, the body's
  /// bytes until the call has ended (the span of pieces itself is copied). Failures are reported
  /// from the loop, never from within.
  void start(const Destination& destination, const CallRequest& request);
  /// Ends the call; its handler hears nothing more. Idempotent.
  void abort();

  /// Stops and restarts the reading of the answer, so that the server has to wait. At most the data
  /// of one read is delivered after pause().
  void pause();
  void resume();

  bool active() const { return connection_ != nullptr; }
  /// Whether the request has been handed to the system entirely.
  bool request_sent() const;

 private:
  friend class Client;
  friend struct ClientConnection;
  Client* client_;
  CallHandler* handler_;
  ClientConnection* connection_ = nullptr;
};

/// Keep-alive connections of one loop to any number of servers. A connection goes back to the pool
/// only after a clean exchange; bytes or a close on an idle one end it. Threading: the loop's
/// thread. Cost of a small request in steady state: one write, one read, no allocation.
class Client {
 public:
  explicit Client(io::Loop& loop, ClientOptions options = {});
  /// Requires: no call is active.
  ~Client();

  io::Loop& loop() const;
  /// Closes the kept connections to `destination`; those in use are closed when their call ends.
  void purge(const Destination& destination);

  size_t idle_connections() const;
  size_t connections() const;
  /// Connections made so far: reuse shows as a number below that of the calls.
  uint64_t connections_made() const;

 private:
  friend class Call;
  friend struct ClientConnection;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace llmd::http
