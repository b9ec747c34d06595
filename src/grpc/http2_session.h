#pragma once

#include "message_reader.h"
#include "output_queue.h"
#include "rate_limit.h"

#include "grpc/server.h"
#include <atomic>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

struct nghttp2_session;

namespace llmd::grpc {

class Http2Session;

/// What a server's sessions share.
struct SessionContext {
  SessionContext(io::Loop& l, ServerOptions o, std::vector<Method> m, io::ByteBudget& b,
                 ServerMetrics counters)
      : loop(l), options(std::move(o)), methods(std::move(m)), budget(b), metrics(counters) {}

  io::Loop& loop;
  const ServerOptions options;
  const std::vector<Method> methods;
  io::ByteBudget& budget;
  const ServerMetrics metrics;
  std::atomic<size_t> open_calls{0};  // written by the loop alone
};

/// One HTTP/2 stream and the call on it. Its states: head arriving (no handler), open, ended (the
/// status is queued or sent), and on the session's list of closed ones until the flush is over.
class Stream final : public Call {
 public:
  Stream(Http2Session& session, int32_t id);
  ~Stream();

  Http2Session& session;
  const int32_t id;
  std::list<Stream>::iterator self;

  // Head.
  size_t header_bytes = 0;
  std::string path;
  std::string timeout;
  std::string encoding;
  std::string traceparent;
  bool is_post = false;
  bool is_grpc = false;
  bool head_refused = false;

  // Call.
  bool begun = false;  // its head is complete, so it counts as open until it has ended
  std::unique_ptr<CallHandler> handler;
  bool responded = false;    // response headers are submitted
  bool ended = false;        // finish() or an abort
  bool half_closed = false;  // the client has sent its last byte
  bool deferred = false;     // nghttp2 waits for more output
  bool touched = false;      // on the session's list of streams that sent
  StatusCode status = StatusCode::kOk;
  std::string status_message;
  MessageReader reader;
  OutputQueue output;
  size_t uncredited = 0;  // received, and not given back to the stream's window
  std::unique_ptr<io::Timer> deadline;
};

/// An HTTP/2 server session with gRPC calls: bytes in, bytes out, no I/O. nghttp2 keeps the
/// protocol state; this class bounds what a peer may ask of it and maps streams to calls.
/// Threading: one loop.
class Http2Session {
 public:
  /// Who carries the bytes.
  class Carrier {
   public:
    /// There is output to collect(), now or at the end of the turn.
    virtual void output_ready() = 0;

   protected:
    ~Carrier() = default;
  };

  Http2Session(SessionContext& context, Carrier& carrier);
  ~Http2Session();
  Http2Session(const Http2Session&) = delete;
  Http2Session& operator=(const Http2Session&) = delete;

  /// Takes bytes from the peer. False: the session is over; what collect() still has (a GOAWAY) is
  /// worth sending.
  bool receive(std::string_view bytes);
  /// Moves output to `gather` until it holds `bytes_max` or there is none. False as receive().
  bool collect(Gather& gather, size_t bytes_max);
  /// To be called when what collect() gathered refers to nothing any more: drops closed streams
  /// and grants windows. True: there is output again.
  bool collected();
  /// Neither side has anything to say any more.
  bool over() const;

  /// A header block has begun and not ended, or no SETTINGS have come.
  bool head_pending() const { return !greeted_ || head_open_; }

  /// Announces the end: a GOAWAY that names no last call, then one that does, once the peer has
  /// had time to see the first.
  void drain();
  /// Ends every call.
  void abort_all(StatusCode why);

 private:
  friend class Call;
  friend class Stream;
  friend struct Callbacks;

  void begin_head(int32_t id);
  bool take_header(Stream& stream, std::string_view name, std::string_view value);
  void end_head(Stream& stream);
  void take_data(Stream& stream, std::string_view data);
  void half_close(Stream& stream);
  void close_stream(Stream& stream);
  bool count_control_frame();
  void end_session(uint32_t error, std::string_view why);

  void respond(Stream& stream);
  void reject(Stream& stream, int http_status, StatusCode code, std::string_view message);
  void send(Stream& stream, std::span<const Piece> pieces);
  void finish(Stream& stream, StatusCode code, std::string_view message);
  /// Ends the call with the handler told; the peer learns of it unless it has gone.
  void abort(Stream& stream, StatusCode why, std::string_view message);
  void end_call(Stream& stream);
  void resume(Stream& stream);
  void submit_trailers(Stream& stream);

  SessionContext& context_;
  Carrier& carrier_;
  nghttp2_session* session_ = nullptr;
  Gather* gather_ = nullptr;  // during collect()
  std::list<Stream> streams_;
  std::list<Stream> closed_;
  std::vector<Stream*> touched_;
  RateLimit resets_;
  RateLimit control_frames_;
  bool greeted_ = false;
  bool head_open_ = false;
  bool draining_ = false;
  bool dead_ = false;
};

/// "100m" (milliseconds) and the like, as grpc-timeout spells them; nothing for anything else.
std::optional<Nanos> parse_timeout(std::string_view text);
/// grpc-message: bytes outside the visible ones as %XX.
std::string percent_encoded(std::string_view text);

}  // namespace llmd::grpc
