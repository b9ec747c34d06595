#include "server_connection.h"

#include "base/text.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

namespace llmd::http {

namespace {

constexpr size_t kStreamReadBytes = 64 * 1024;
/// How far a declared length is believed.
constexpr size_t kBodyBelievedBytes = 8u << 20;
constexpr size_t kLingerBytesMax = 1u << 20;
constexpr Nanos kLingerTimeout = std::chrono::seconds(2);
constexpr Nanos kFirstRequestWait = std::chrono::seconds(1);  // once the server stops
/// Blank lines that are ignored before a request line.
constexpr int kBlankLinesMax = 4;
/// Reads in a row before other connections get their turn.
constexpr int kStepsMax = 32;

}  // namespace

Nanos body_wait(const ServerOptions& options, Nanos between, TimePoint began, TimePoint now) {
  Nanos wait = between;
  if (options.request_timeout > Nanos(0)) {
    const Nanos left = std::max(Nanos(began + options.request_timeout - now), Nanos(1));
    if (wait == Nanos(0) || left < wait) wait = left;
  }
  return wait;
}

std::string refusal_body(int status, std::string_view what) {
  std::string body = "{\"error\":{\"message\":\"";
  append_json_escaped(body, what);
  body += "\",\"type\":\"invalid_request_error\",\"param\":null,\"code\":";
  body += std::to_string(status) + "}}\n";
  return body;
}

ServerConnection::ServerConnection(Server::State& server, io::Fd fd, io::PeerLimit::Place place)
    : server_(server),
      place_(std::move(place)),
      stream_(std::move(fd), server.options.tls, server.loop.buffers()),
      deadline_(server.loop, [this] { on_deadline(); }),
      handler_(server.factory()) {
  if (server.options.body_budget) body_share_.emplace(*server.options.body_budget);
  server_.loop.watch(stream_.fd(), *this);
  deadline_.set(server_.options.head_timeout);
}

ServerConnection::~ServerConnection() {
  if (stream_) server_.loop.forget(*this);
}

void ServerConnection::on_ready(uint32_t ready) {
  ready = stream_.on_ready(ready);
  if (ready & io::kPeerGone) peer_gone_ = true;
  if (ready & io::kReadable) readable_ = true;
  if ((ready & io::kWritable) && blocked_) flush();
  advance();
}

void ServerConnection::at_turn_end() {
  if (state_ == State::kClosed) return server_.erase(*this);
  if (out_.size() > 0 && !blocked_) flush();
  advance();
}

void ServerConnection::advance() {
  if (advancing_) return;
  advancing_ = true;
  int steps = 0;
  while (state_ != State::kClosed && advance_once()) {
    if (++steps == kStepsMax) {
      server_.loop.at_turn_end(*this);
      break;
    }
  }
  advancing_ = false;
  const bool waits = state_ == State::kAnswering || (state_ == State::kBody && body_paused_);
  if (waits && peer_gone_ && announced_) abort_exchange(AbortCause::kClientGone);
}

/// Does the next thing that can be done without waiting; false when there is none.
bool ServerConnection::advance_once() {
  switch (state_) {
    case State::kIdle:
      if (blocked_) return false;
      if (in_.size() == 0) {
        if (!readable_) return false;
        if (!in_) in_ = server_.loop.buffers().take();
        if (!read_into(in_, in_.room_size())) {
          in_.release();
          return false;
        }
      }
      began_ = server_.loop.turn_time();
      state_ = State::kHead;
      scanner_.reset();
      deadline_.set(server_.options.head_timeout);
      return true;
    case State::kHead:
      return find_head();
    case State::kBody:
      if (answer_ == Answer::kEnded) return end_exchange();
      return read_body();
    case State::kAnswering:
      return answer_ == Answer::kEnded && end_exchange();
    case State::kLingering:
      if (!readable_) return false;
      if (!in_) in_ = server_.loop.buffers().take();
      in_.resize_down(0);
      if (!read_into(in_, in_.room_size())) return false;
      linger_bytes_ += in_.size();
      if (linger_bytes_ > kLingerBytesMax) close();
      return true;
    case State::kClosed:
      break;
  }
  return false;
}

/// One read of at most `limit` bytes to the end of `buffer`. False when there was nothing, or no
/// more will come: the connection is then closed.
bool ServerConnection::read_into(io::Buffer& buffer, size_t limit) {
  const ssize_t n = stream_.read(buffer.room(), limit);
  if (n > 0) {
    buffer.commit(static_cast<size_t>(n));
    // A short read has emptied the socket, and what comes later is a new edge; an end that was seen
    // must still be read.
    if (!stream_.more(static_cast<size_t>(n), limit) && !peer_gone_) readable_ = false;
    return true;
  }
  readable_ = false;
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
  abort_exchange(AbortCause::kClientGone);
  return false;
}

/// Whether the client speaks HTTP/2: TLS has agreed on it, or, without TLS, the head is the first
/// part of its preface.
bool ServerConnection::is_http2() const {
  constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\n";
  if (!first_ || !server_.options.http2) return false;
  return stream_.secure() ? stream_.agreed_on(tls::kHttp2) : in_.view().starts_with(kPreface);
}

void ServerConnection::switch_to_http2() {
  server_.loop.unwatch(stream_.fd(), *this);
  state_ = State::kClosed;
  server_.switch_to_http2(std::move(stream_), std::move(place_), in_.view());
  in_.release();
  deadline_.clear();
  server_.loop.at_turn_end(*this);
}

bool ServerConnection::find_head() {
  if (first_ && stream_.secure() && is_http2()) {
    switch_to_http2();
    return true;
  }
  if (head_bytes_ == 0 && in_.view().starts_with("\r\n")) {
    // Blank lines before a request line are ignored (RFC 9112 §2.2), but keep nothing open.
    if (++blank_lines_ > kBlankLinesMax) {
      refuse(400, "too many blank lines before a request");
      return true;
    }
    in_.consume(2);
    scanner_.reset();
    if (in_.size() == 0) {
      state_ = State::kIdle;
      deadline_.set(server_.options.idle_timeout);
    }
    return true;
  }
  const size_t found = scanner_.scan(in_.view());
  if (found == HeadScanner::kBad) {
    refuse(400, "malformed line end");
    return true;
  }
  const size_t head_bytes = found == HeadScanner::kMore ? in_.size() : found;
  if (head_bytes > server_.options.head_bytes_max) {
    refuse(431, "request head too large");
    return true;
  }
  if (found != HeadScanner::kMore) {
    if (is_http2())
      switch_to_http2();
    else
      begin_exchange(found);
    return true;
  }
  if (!readable_) return false;
  if (in_.room_size() == 0) in_.reserve_room(1);
  return read_into(in_, in_.room_size());
}

void ServerConnection::begin_exchange(size_t head_bytes) {
  auto head =
      parse_request_head(in_.view().substr(0, head_bytes), server_.options.headers_max, fields_);
  if (!head) return refuse(head.error().status, head.error().what);
  head_ = *head;
  first_ = false;
  head_bytes_ = in_used_ = head_bytes;
  keep_alive_ = head_.keep_alive;
  body_bytes_ = 0;
  answer_ = Answer::kNone;
  suppress_body_ = chunked_answer_ = answer_has_length_ = false;
  stream_body_ = body_paused_ = behind_head_ = owes_writable_ = false;
  received_ = {};
  state_ = State::kBody;
  announced_ = true;
  ++server_.open_exchanges;
  deadline_.clear();
  if (head_.content_length > server_.options.body_bytes_max && head_.framing == Framing::kLength)
    return refuse(413, body_too_large(server_.options.body_bytes_max));
  handler_->on_request(*this);
  if (state_ == State::kClosed) return;
  if (head_.framing == Framing::kNone) {
    state_ = State::kAnswering;
    if (announced_) deliver({}, {}, true);
    return;
  }
  if (answer_ == Answer::kEnded) return;
  if (head_.expects_continue && in_.size() == head_bytes_ && answer_ == Answer::kNone) {
    append_out("HTTP/1.1 100 Continue\r\n\r\n");
    flush();
  }
  place_body();
}

/// Decides where the body goes and takes the part of it that came with the head.
void ServerConnection::place_body() {
  decoder_.reset();
  const auto rest = in_.view().substr(head_bytes_);
  const uint64_t length = head_.content_length;
  if (head_.framing == Framing::kChunked) {
    body_ = server_.loop.buffers().take(std::max(rest.size() * 2, size_t{1}));
    body_.append(rest);
    in_.resize_down(head_bytes_);
    if (body_.size() > 0) decode_chunks(0);
    return;
  }
  if (stream_body_) {
    body_bytes_ = std::min<uint64_t>(rest.size(), length);
    in_used_ += body_bytes_;
    if (body_bytes_ > 0) deliver(rest.substr(0, body_bytes_), {}, body_bytes_ == length);
    return;
  }
  if (head_bytes_ + length <= in_.capacity()) {
    behind_head_ = true;
    body_bytes_ = std::min<uint64_t>(rest.size(), length);
    in_used_ = head_bytes_ + length;
    if (body_bytes_ > 0)
      deliver(rest.substr(0, body_bytes_), rest.substr(0, body_bytes_), body_bytes_ == length);
    return;
  }
  body_ = server_.loop.buffers().take();
  body_.append(rest);
  in_.resize_down(head_bytes_);
  body_bytes_ = rest.size();
  if (body_bytes_ > 0 && charge_body()) deliver(rest, body_.view(), false);
}

/// Counts what has come of the body, not what was promised. False: the process holds as much as it
/// may, and the request is refused.
bool ServerConnection::charge_body() {
  constexpr size_t kStep = 64 * 1024;
  if (!body_share_ || body_share_->resize((body_.size() + kStep - 1) / kStep * kStep)) return true;
  server_.count(ClientLimit::kBufferedBytes);
  refuse(503, "too many request bytes are buffered");
  return false;
}

void ServerConnection::release_body() {
  body_.release();
  if (body_share_) body_share_->resize(0);
}

bool ServerConnection::read_body() {
  if (body_paused_) return false;
  if (!readable_) {
    await_body();
    return false;
  }
  if (head_.framing == Framing::kChunked) return read_chunked_body();
  return behind_head_ ? read_body_behind_head() : read_sized_body();
}

/// Limits the wait for more of the body: each arrival, and the request as a whole.
void ServerConnection::await_body() {
  deadline_.set(
      body_wait(server_.options, server_.options.body_timeout, began_, server_.loop.turn_time()));
}

bool ServerConnection::read_body_behind_head() {
  if (!read_into(in_, in_.room_size())) return false;
  const auto body = in_.view().substr(head_bytes_, head_.content_length);
  const auto news = body.substr(body_bytes_);
  body_bytes_ = body.size();
  deliver(news, body, body_bytes_ == head_.content_length);
  return true;
}

bool ServerConnection::read_sized_body() {
  const uint64_t left = head_.content_length - body_bytes_;
  if (stream_body_) {
    if (!body_) body_ = server_.loop.buffers().take(kStreamReadBytes);
    body_.resize_down(0);
  } else {
    body_.reserve_declared(1, std::min<uint64_t>(head_.content_length, kBodyBelievedBytes));
  }
  const size_t before = body_.size();
  if (!read_into(body_, std::min<uint64_t>(left, body_.room_size()))) return false;
  const auto news = body_.view().substr(before);
  body_bytes_ += news.size();
  if (charge_body()) deliver(news, body_.view(), body_bytes_ == head_.content_length);
  return true;
}

bool ServerConnection::read_chunked_body() {
  if (stream_body_) body_.resize_down(0);
  body_.reserve_room(io::BufferPool::kChunkBytes / 2);
  const size_t before = body_.size();
  if (!read_into(body_, body_.room_size())) return false;
  decode_chunks(before);
  return true;
}

/// Takes the framing off the bytes of body_ from `from` on.
void ServerConnection::decode_chunks(size_t from) {
  char* raw = body_.data() + from;
  const size_t size = body_.size() - from;
  const auto result = decoder_.decode(raw, size);
  if (result.status == ChunkDecoder::Status::kBad) return refuse(400, "malformed chunk");
  if (result.consumed < size) {
    next_in_ = server_.loop.buffers().take(size - result.consumed);
    next_in_.append({raw + result.consumed, size - result.consumed});
  }
  if (!result.data.empty()) std::memmove(raw, result.data.data(), result.data.size());
  body_.resize_down(from + result.data.size());
  body_bytes_ += result.data.size();
  if (body_bytes_ > server_.options.body_bytes_max)
    return refuse(413, body_too_large(server_.options.body_bytes_max));
  if (!charge_body()) return;
  const bool complete = result.status == ChunkDecoder::Status::kDone;
  if (complete || !result.data.empty()) deliver({raw, result.data.size()}, body_.view(), complete);
}

void ServerConnection::deliver(std::string_view news, std::string_view all, bool complete) {
  if (complete) {
    state_ = State::kAnswering;
    deadline_.clear();
    received_ = server_.loop.turn_time();
  }
  if (stream_body_ && !news.empty()) handler_->on_body(*this, news);
  if (!stream_body_ && !complete) handler_->on_body(*this, all);
  if (complete && announced_)
    handler_->on_request_end(*this, stream_body_ ? std::string_view{} : all);
}

/// After the answer's last byte was given to the socket or to out_. False: waits.
bool ServerConnection::end_exchange() {
  const bool received = state_ == State::kAnswering;
  if (!received) {
    linger();
    return true;
  }
  if (!keep_alive_ || server_.stopping) {
    if (blocked_) return false;
    if (readable_ || in_.size() > in_used_)
      linger();
    else
      close();
    return true;
  }
  leave_exchange();
  return true;
}

/// Makes the connection ready for its next request.
void ServerConnection::leave_exchange() {
  state_ = State::kIdle;
  answer_ = Answer::kNone;
  head_bytes_ = 0;
  blank_lines_ = 0;
  release_body();
  if (next_in_) {
    in_ = std::move(next_in_);
  } else {
    in_.consume(std::min(in_used_, in_.size()));
    if (in_.size() == 0) in_.release();
  }
  if (!blocked_) deadline_.set(server_.options.idle_timeout);
}

void ServerConnection::stop_when_idle() {
  // A request that is already here is served.
  if (state_ == State::kIdle) readable_ = true;
  advance();
  if (state_ != State::kIdle || blocked_ || in_.size() > 0) return;
  // The client of a new connection has no way to know that its request came too late.
  if (first_)
    deadline_.set(std::min(kFirstRequestWait, server_.options.head_timeout));
  else
    close();
}

void ServerConnection::abort_exchange(AbortCause cause) {
  const bool announced = std::exchange(announced_, false);
  if (announced) --server_.open_exchanges;
  close();
  if (announced) handler_->on_abort(*this, cause);
}

/// Answers a message that cannot be served, by its handler where it knows of it, and ends the
/// connection.
void ServerConnection::refuse(int status, std::string_view what) {
  if (status == 413) server_.count(ClientLimit::kBody);
  if (status == 431) server_.count(ClientLimit::kHeaderList);
  keep_alive_ = false;
  if (announced_) {
    if (answer_ != Answer::kNone) return abort_exchange(AbortCause::kBadRequest);
    handler_->on_refused(*this, status, what);
    if (!announced_) return;
    announced_ = false;
    --server_.open_exchanges;
  }
  const std::string body = refusal_body(status, what);
  suppress_body_ = false;
  const HeaderField type{"Content-Type", "application/json"};
  append_head(status, {&type, 1}, false, body.size());
  append_out(body);
  answer_ = Answer::kEnded;
  if (!blocked_) flush();
  if (state_ != State::kClosed) linger();
}

/// Ends the connection so that the client can read the answer: closing with unread bytes would
/// reset it.
void ServerConnection::linger() {
  state_ = State::kLingering;
  linger_bytes_ = 0;
  release_body();
  next_in_.release();
  if (!blocked_) stream_.shut_down();
  deadline_.set(kLingerTimeout);
}

void ServerConnection::close() {
  if (state_ == State::kClosed) return;
  if (state_ == State::kIdle || (answer_ == Answer::kEnded && out_.size() == 0)) stream_.say_end();
  state_ = State::kClosed;
  server_.loop.forget(*this);
  stream_.close();
  out_.release();
  blocked_ = false;
  deadline_.clear();
  server_.loop.at_turn_end(*this);
}

void ServerConnection::on_deadline() {
  switch (state_) {
    case State::kIdle:
    case State::kLingering:
      return close();
    case State::kHead:
      server_.count(ClientLimit::kHeadTimeout);
      return refuse(408, "the request head did not arrive in time");
    case State::kBody: {
      const Nanos limit = server_.options.request_timeout;
      const bool whole = limit > Nanos(0) && server_.loop.clock().now() >= began_ + limit;
      server_.count(whole ? ClientLimit::kRequestTimeout : ClientLimit::kBodyTimeout);
      return refuse(408, "the request body did not arrive in time");
    }
    case State::kAnswering:
      if (!blocked_) return;
      server_.count(ClientLimit::kWriteTimeout);
      return abort_exchange(AbortCause::kClientStalled);
    case State::kClosed:
      return;
  }
}

}  // namespace llmd::http
