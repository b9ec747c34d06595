#pragma once

#include "base/headers.h"
#include "base/result.h"
#include "codec/json_rename.h"
#include "fleet/endpoint.h"
#include "request/request_view.h"
#include "route/retry.h"
#include "schedule/request_context.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

namespace llmd::route {

class Director;
class LoopDirector;

/// Bytes of the body to replace on the way out.
struct Splice {
  request::Range range;
  std::string_view replacement;
};

/// Where a request goes. Views live as long as the session's request.
struct Forward {
  std::span<fleet::Endpoint* const> endpoints;         // the preferred first
  std::span<const HeaderField> set_headers;            // replace or add on the forwarded request
  std::span<const Splice> splices;                     // in body order; usually none
  const schedule::RequestContext* decision = nullptr;  // null: chosen without one (no body)
  bool fresh_connection = false;                       // not over a kept one: another was stale
  uint16_t port = 0;                                   // instead of the endpoints' own; 0: theirs
};

/// An answer of our own. `message` is the text of spec 01 §3 with its prefix; the front end wraps
/// it for its protocol.
struct Reply {
  int status = 500;
  Code code = Code::kInternal;
  std::string_view message;
  std::string_view drop_reason;  // x-llm-d-request-dropped-reason; empty: not sent
  std::string_view request_id;   // as received or made
  int retry_after = 0;           // seconds, Retry-After; 0: not sent
};

/// What a session asks its front end to do, possibly from within an on_…() call of the session.
/// forward() comes once, and once more after a failure that permits another try; reply() at most
/// once, last: the session is then finished.
class SessionSink {
 public:
  virtual void forward(const Forward& forward) = 0;
  virtual void reply(const Reply& reply) = 0;

 protected:
  ~SessionSink() = default;
};

/// One request, from its first header to the end of its answer: a state machine that every front
/// end drives and that never touches a socket. The legal (state, event) pairs are a table in
/// session_states.h; an illegal event is a counted soft check and changes nothing.
///
/// A session is reused for the requests of a connection, one after the other: start() begins the
/// next one. Threading: one loop.
class Session {
 public:
  Session(LoopDirector& director, SessionSink& sink);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Limits the next request, or the one being received, to endpoints whose address is among
  /// `subset`: "ip:port", of which only the ip counts. Nothing: no limit; empty: none is left. The
  /// views stay valid until the request ends.
  void restrict_to(std::optional<std::span<const std::string_view>> subset);
  /// A trace context that carries the next request, used when its head has none. The view stays
  /// valid until on_headers() has returned.
  void carried_by(std::string_view traceparent);
  /// The request's head. `headers` and `target` (path with query) stay valid until the request
  /// ends.
  void on_headers(std::string_view target, HeaderView headers, bool end_of_stream);
  /// More of the body has arrived: `body` is all of it so far, contiguous; it may move between
  /// calls.
  void on_body(std::string_view body);
  /// The body is complete and stays where it is until the request ends.
  void on_end(std::string_view body);

  /// The answer's head. `streaming` of the request or an SSE content type decides how usage is
  /// read. `served` is the "host:port" that answered, as the proxy in front says; "": it does not.
  /// A candidate that is not the endpoint of the last forward() takes over what is charged to that.
  void on_response_headers(int status, HeaderView headers, std::string_view served = {});
  /// What to set on the answer's head before it goes to the client. Valid until the request ends.
  std::span<const HeaderField> response_headers() const;
  void on_response_body(std::string_view chunk);
  /// What the answer's bytes have to pass on their way to the client, so that it reads the model's
  /// name as it wrote it; null: they go as they are. Known from on_response_headers() to the next
  /// request. The session itself reads the bytes as they came.
  codec::JsonRename* renaming();
  /// Whether plugins report about answers: the proxy then gets the last bytes after reports().
  bool reports_answers() const;
  /// What plugins report about the answer, whose last byte was given to on_response_body(). Once,
  /// before on_response_end(); valid until then.
  std::span<const schedule::Report> reports();
  void on_response_end();

  /// The endpoint of the last forward() failed. Before the response's head the session releases
  /// what it charged and schedules again without the endpoints that failed (forward()), or answers
  /// (reply()); see RetryOptions. After the head: the front end shows the break to the client, and
  /// the session ends with cause error.
  void on_upstream_failed(UpstreamFailure failure);
  /// The front end cannot take the request, or no more of it: ends it with a reply() of `status`
  /// that says the error as it is. Legal from on_headers() on.
  void refuse(int status, const Error& error);
  /// The client is gone or the front end gives up. Legal in every state; nothing is emitted
  /// afterwards.
  void on_abort(schedule::EndCause cause = schedule::EndCause::kClientDisconnect);

  /// The pool is shutting down: a request that waits for admission is refused.
  void on_drain();

  /// True between on_headers() and the end of the request.
  bool active() const;
  /// The request's id, as received or made. Valid while active.
  std::string_view request_id() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace llmd::route
