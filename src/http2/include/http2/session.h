#pragma once

#include "base/headers.h"
#include "http2/output.h"
#include "io/loop.h"
#include "metric/registry.h"

#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

struct nghttp2_session;

namespace llmd::http2 {

class RateLimit;
class Session;

/// The error codes of RFC 9113 §7 that are told apart here.
enum class Error : uint32_t {
  kNone = 0,
  kProtocol = 1,
  kInternal = 2,
  kRefusedStream = 7,  // nothing was done with the request
  kCancel = 8,
  kCalm = 11,
};

/// What a peer may ask of a session.
struct Limits {
  uint32_t streams_max = 256;                  // concurrent streams that it opens
  uint32_t header_list_bytes_max = 64 * 1024;  // of a head, uncompressed, 32 more per line
  uint32_t stream_window_bytes = 128 * 1024;
  uint32_t connection_window_bytes = 8u << 20;
  /// Streams that it may reset before they were answered, per second on average, after a burst of
  /// ten seconds' worth; beyond it the connection ends (ENHANCE_YOUR_CALM).
  uint32_t resets_per_second = 100;
  /// The same for PING, SETTINGS, PRIORITY and empty DATA frames.
  uint32_t control_frames_per_second = 100;
};

/// Counters of reached limits. Handles write nothing by default.
struct Counters {
  metric::Counter streams_refused, headers_refused, resets_refused, control_frames_refused,
      protocol_errors;
};

/// One stream, as its owner's class derives it. Nothing is heard after on_closed(), and nothing
/// that is then said has an effect. Threading: the session's loop.
class Stream {
 public:
  virtual ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  int32_t id() const { return id_; }
  /// The peer can still be spoken to.
  bool open() const { return session_ != nullptr; }
  /// Whether the head of what this side says was sent.
  bool head_sent() const { return head_sent_; }

 protected:
  Stream(io::BufferPool& buffers, io::ByteBudget& budget) : output_(buffers, budget) {}

  // What happens. Views are valid during the call.
  /// A line of a head or of trailers, pseudo headers included. False: the stream is reset.
  virtual bool on_field(std::string_view name, std::string_view value) = 0;
  /// A head, an interim one, or the trailers are complete. `last`: on_end() follows.
  virtual void on_fields_end(bool last) = 0;
  virtual void on_data(std::string_view data) = 0;
  /// The peer has sent its last byte.
  virtual void on_end() = 0;
  /// Some of the output has been handed to the socket.
  virtual void on_output_sent() {}
  /// The stream is over: both sides have ended, one of them has reset it, or the connection ends.
  virtual void on_closed(Error error) = 0;

  // What to do.
  /// Counts a line against Limits::header_list_bytes_max; false beyond it.
  bool within_header_list(std::string_view name, std::string_view value);
  /// The lines counted so far belong to a block that is complete.
  void restart_header_list() { header_bytes_ = 0; }
  /// Sends a head; `last`: there is nothing after it. Names may be of any case.
  void send_head(std::span<const HeaderField> fields, bool last);
  /// An interim head (1xx), before the head.
  void send_interim(std::span<const HeaderField> fields);
  /// Queues bytes of the body. They go out at the end of the turn, as far as the peer's windows let
  /// them. Requires: the head was sent.
  void send(std::span<const Piece> pieces);
  /// Ends this side after what was queued. Trailers are copied.
  void finish(std::span<const HeaderField> trailers = {});
  /// Breaks the stream off; on_closed() comes at the end of the turn.
  void reset(Error error);
  /// Gives received bytes back to the stream's window.
  void consume(size_t bytes);

  OutputQueue output_;

 private:
  friend class Session;
  friend struct Callbacks;
  void resume();

  Session* session_ = nullptr;
  int32_t id_ = 0;
  std::list<std::unique_ptr<Stream>>::iterator self_;
  size_t header_bytes_ = 0;
  bool head_sent_ = false;
  bool finished_ = false;    // this side has ended
  bool peer_ended_ = false;  // the peer has
  bool deferred_ = false;    // nghttp2 waits for more output
  bool touched_ = false;     // on the session's list of streams that sent
  std::vector<std::pair<std::string, std::string>> trailers_;
};

/// One side of an HTTP/2 connection: bytes in, bytes out, no I/O. nghttp2 keeps the protocol state;
/// this class bounds what a peer may ask of it. Threading: one loop.
class Session {
 public:
  enum class Role : uint8_t { kServer, kClient };

  /// Who carries the bytes.
  class Owner {
   public:
    /// There is output to collect(), now or at the end of the turn.
    virtual void output_ready() = 0;
    /// The stream on which a client's request begins. Servers only.
    virtual std::unique_ptr<Stream> open_stream() = 0;

   protected:
    ~Owner() = default;
  };

  Session(Role role, const Limits& limits, const Counters& counters, io::Loop& loop, Owner& owner);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Takes bytes from the peer. False: the session is over; what collect() still has (a GOAWAY) is
  /// worth sending.
  bool receive(std::string_view bytes);
  /// Moves output to `gather` until it holds `bytes_max` or there is none. False as receive().
  bool collect(Gather& gather, size_t bytes_max);
  /// To be called when what collect() gathered refers to nothing any more: drops streams that are
  /// over and tells those that sent. True: there is output again.
  bool collected();
  /// Neither side has anything to say any more.
  bool over() const;

  /// A header block has begun and not ended, or no SETTINGS have come.
  bool head_pending() const { return !greeted_ || head_open_; }
  /// Streams that are not over.
  size_t streams() const { return streams_.size(); }

  /// Whether a request may begin: the peer has not said goodbye, and lets another one run.
  bool can_request() const;
  /// Begins a request. `last`: it has no body. Clients only.
  void request(std::unique_ptr<Stream> stream, std::span<const HeaderField> fields, bool last);

  /// Announces the end: a GOAWAY that names no last stream, then one that does, once the peer has
  /// had time to see the first.
  void drain();
  bool draining() const { return draining_; }
  /// Anything has come from the peer.
  bool heard() const { return heard_; }
  /// Ends the session with a GOAWAY; streams are not told.
  void terminate(Error error);
  /// Tells every stream that it is over. Nothing is sent any more.
  void close_all(Error error);

 private:
  friend class Stream;
  friend struct Callbacks;

  void begin_stream(int32_t id);
  void close_stream(Stream& stream, Error error);
  bool count_control_frame();
  void end_session(Error error, std::string_view why);
  struct NameValues;
  const NameValues& fields(std::span<const HeaderField> fields);

  const Limits limits_;
  const Counters counters_;
  io::Loop& loop_;
  Owner& owner_;
  const Role role_;
  nghttp2_session* session_ = nullptr;
  Gather* gather_ = nullptr;  // during collect()
  std::list<std::unique_ptr<Stream>> streams_;
  std::list<std::unique_ptr<Stream>> closed_;
  std::vector<Stream*> touched_;
  std::vector<Stream*> sent_;  // during collected()
  std::unique_ptr<NameValues> name_values_;
  std::unique_ptr<RateLimit> resets_;
  std::unique_ptr<RateLimit> control_frames_;
  bool heard_ = false;
  bool greeted_ = false;
  bool head_open_ = false;
  bool draining_ = false;
  bool dead_ = false;
};

}  // namespace llmd::http2
