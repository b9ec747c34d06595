#pragma once

#include "deadline.h"
#include "parser.h"

#include "http/server.h"
#include "tls/stream.h"

#include <atomic>
#include <list>
#include <memory>
#include <vector>

namespace llmd::http {

/// How long to wait for more of a body: `between` two arrivals, and no longer than the request as a
/// whole may take; 0: without end.
Nanos body_wait(const ServerOptions& options, Nanos between, TimePoint began, TimePoint now);
/// What is told to a client whose request cannot be served.
std::string refusal_body(int status, std::string_view what);

/// What a Server and its connections share.
struct Server::State final : io::Pollable {
  State(io::Loop& l, ServerOptions o, HandlerFactory f);
  ~State();

  void on_ready(uint32_t ready) override;
  void accept_all();
  void add(io::Fd fd);
  void count(ClientLimit limit) const {
    if (options.probe) options.probe->count(limit);
  }
  void erase(class ServerConnection& connection);
  void erase(class Http2Connection& connection);
  /// Goes on by HTTP/2 with a client that has sent `read`.
  void switch_to_http2(tls::Stream stream, io::PeerLimit::Place place, std::string_view read);
  void cut_off();
  void left();
  void finish_stop();

  io::Loop& loop;
  const ServerOptions options;
  HandlerFactory factory;
  io::Fd listener;
  uint16_t port = 0;
  bool accept_paused = false;  // at connections_max
  bool stopping = false;
  std::move_only_function<void()> on_stopped;
  io::Timer accept_retry;
  std::unique_ptr<io::Timer> grace;
  size_t connection_count() const;

  std::list<class ServerConnection> connections;
  std::list<class Http2Connection> http2_connections;
  bool cutting_off = false;               // what is left is aborted
  std::atomic<size_t> open_exchanges{0};  // written by the loop alone
  /// Of answers to HTTP/2 clients: each has a bound of its own.
  io::ByteBudget output_budget{UINT64_MAX};
  std::vector<HeaderField> fields;  // of the HTTP/2 head being sent
};

/// One connection and the exchange on it.
///
///   kIdle → kHead → kBody → kAnswering → kIdle …        kLingering and kClosed end it
///
/// Input: `in_` starts with the head that is being served, whose views point into it, so it does
/// not move between the end of the head and the end of the exchange. A body that fits behind its
/// head stays there; a larger or chunked one is read into `body_`. Bytes of the next request stay
/// behind the body in `in_`, or in `next_in_` when there is a `body_`. Output: bytes go to the
/// socket at once, in one call with what is left in `out_`; once the socket is full
/// (`blocked_`), they gather in `out_`. `out_` of a socket that is not blocked is corked until the
/// end of the turn. An object that is closed lives until the end of the turn, so callers need not
/// look after every callback.
class ServerConnection final : public Exchange, public io::Pollable, public io::TurnTask {
 public:
  ServerConnection(Server::State& server, io::Fd fd, io::PeerLimit::Place place);
  ~ServerConnection() override;

  void on_ready(uint32_t ready) override;
  void at_turn_end() override;

  /// Closes an idle connection, a new one only after kFirstRequestWait; makes the current exchange
  /// the last otherwise.
  void stop_when_idle();
  /// Ends the exchange with on_abort() and closes.
  void abort_exchange(AbortCause cause);

  const RequestHead& head() const override { return head_; }
  io::Loop& loop() const override { return server_.loop; }
  io::SocketAddress peer() const override;
  void stream_body() override { stream_body_ = true; }
  void pause_body() override { body_paused_ = true; }
  void resume_body() override;
  void respond(int status, std::span<const HeaderField> headers, std::string_view body) override;
  void start(int status, std::span<const HeaderField> headers,
             std::optional<uint64_t> length) override;
  bool write(std::string_view data, bool last) override;
  void finish(std::span<const HeaderField>) override { write({}, true); }
  void inform(int status, std::span<const HeaderField> headers) override;
  void abort() override;
  size_t unsent() const override { return out_.size(); }
  bool started() const override { return answer_ != Answer::kNone; }
  bool ended() const override { return !announced_; }
  TimePoint began() const override { return began_; }
  TimePoint received() const override { return received_; }

  std::list<ServerConnection>::iterator self;

 private:
  enum class State : uint8_t { kIdle, kHead, kBody, kAnswering, kLingering, kClosed };
  enum class Answer : uint8_t { kNone, kStarted, kEnded };

  // Input, in server_connection.cc.
  void advance();
  bool advance_once();
  bool read_into(io::Buffer& buffer, size_t limit);
  bool find_head();
  void begin_exchange(size_t head_bytes);
  void place_body();
  bool charge_body();
  void release_body();
  bool read_body();
  void await_body();
  bool read_body_behind_head();
  bool read_sized_body();
  bool read_chunked_body();
  void decode_chunks(size_t from);
  void deliver(std::string_view news, std::string_view all, bool complete);
  bool end_exchange();
  void leave_exchange();
  void refuse(int status, std::string_view what);
  void linger();
  void close();
  void on_deadline();

  bool is_http2() const;
  void switch_to_http2();

  // Output, in server_answer.cc, as are Exchange's functions.
  void append_head(int status, std::span<const HeaderField> headers, bool chunked,
                   std::optional<uint64_t> length);
  void end_after_early_answer();
  void append_out(std::string_view bytes);
  void send_pieces(std::span<const std::string_view> pieces);
  void flush();
  void answer_ended();

  Server::State& server_;
  io::PeerLimit::Place place_;
  tls::Stream stream_;
  State state_ = State::kIdle;
  Answer answer_ = Answer::kNone;
  bool readable_ = false;
  bool peer_gone_ = false;
  bool advancing_ = false;
  bool announced_ = false;  // on_request() was called and the exchange has not ended
  bool blocked_ = false;
  bool owes_writable_ = false;
  bool keep_alive_ = true;
  bool first_ = true;  // no request has come yet
  bool stream_body_ = false;
  bool body_paused_ = false;
  bool behind_head_ = false;  // the body stays in in_
  bool chunked_answer_ = false;
  bool suppress_body_ = false;
  bool answer_has_length_ = false;
  uint64_t answer_left_ = 0;

  RequestHead head_;
  std::vector<HeaderField> fields_;
  HeadScanner scanner_;
  ChunkDecoder decoder_;
  int blank_lines_ = 0;  // before the current request
  size_t head_bytes_ = 0;
  size_t in_used_ = 0;       // bytes of in_ that belong to the current exchange
  uint64_t body_bytes_ = 0;  // received so far, decoded
  size_t linger_bytes_ = 0;
  io::Buffer in_;
  io::Buffer next_in_;
  io::Buffer body_;
  std::optional<io::BudgetShare> body_share_;
  io::Buffer out_;
  TimePoint began_{};
  TimePoint received_{};
  Deadline deadline_;
  std::unique_ptr<RequestHandler> handler_;
};

}  // namespace llmd::http
