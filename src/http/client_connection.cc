#include "client_connection.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/uio.h>

namespace llmd::http {

namespace {

constexpr size_t kReadBytes = 64 * 1024;
/// Reads in a row before other connections get their turn.
constexpr int kReadsMax = 16;
constexpr size_t kVectorMax = 64;

}  // namespace

ClientConnection::ClientConnection(Client::State& client, ClientPeer& peer)
    : client_(client), peer_(peer), deadline_(client.loop, [this] { on_deadline(); }) {
  auto fd = connect(peer.destination);
  if (!fd) {
    fail_later(Failure::kConnect);
    return;
  }
  stream_ = tls::Stream(std::move(*fd), peer.destination.tls, client_.loop.buffers());
  client_.loop.watch(stream_.fd(), *this);
  deadline_.set(client_.options.connect_timeout);
}

ClientConnection::~ClientConnection() {
  if (stream_) client_.loop.forget(*this);
}

void ClientConnection::on_ready(uint32_t ready) {
  ready = stream_.on_ready(ready);
  if (ready & io::kPeerGone) peer_gone_ = true;
  if (ready & io::kReadable) readable_ = true;
  switch (state_) {
    case State::kConnecting:
      if (ready & (io::kWritable | io::kPeerGone)) connected();
      break;
    case State::kIdle:
      // Nothing may come on an idle connection but its end.
      if (readable_ && !stream_.quiet()) return close();
      readable_ = false;
      return;
    case State::kActive:
      if ((ready & io::kWritable) && blocked_) send();
      break;
    case State::kClosed:
      return;
  }
  if (state_ == State::kActive && readable_ && !paused_) receive();
}

void ClientConnection::at_turn_end() {
  if (state_ == State::kClosed) return client_.erase(*this);
  if (failed_) return fail(failure_);
  if (state_ == State::kActive && readable_ && !paused_) receive();
}

void ClientConnection::begin(Call& new_call, const CallRequest& request) {
  call = &new_call;
  serialise(request);
  if (state_ == State::kActive) send();
}

void ClientConnection::begin_again(ClientConnection& failed) {
  call = std::exchange(failed.call, nullptr);
  call->connection_ = this;
  head_ = std::move(failed.head_);
  pieces_.swap(failed.pieces_);
  head_method_ = failed.head_method_;
  paused_ = failed.paused_;
  began_sending_ = failed.began_sending_;
}

void ClientConnection::serialise(const CallRequest& request) {
  size_t length = 0;
  for (const auto piece : request.body) length += piece.size();
  head_ = client_.loop.buffers().take();
  head_.append({request.method, " ", request.target, " HTTP/1.1\r\nHost: ", request.host, "\r\n"});
  for (const auto& [name, value] : request.headers) head_.append({name, ": ", value, "\r\n"});
  const auto& method = request.method;
  if (length > 0 || request.explicit_length || method == "POST" || method == "PUT" ||
      method == "PATCH") {
    std::array<char, 24> space;
    const auto end = std::to_chars(space.data(), space.data() + space.size(), length).ptr;
    head_.append(
        {"Content-Length: ", {space.data(), static_cast<size_t>(end - space.data())}, "\r\n"});
  }
  head_.append("\r\n");
  head_method_ = method == "HEAD";
  pieces_.assign(1, head_.view());
  for (const auto piece : request.body)
    if (!piece.empty()) pieces_.push_back(piece);
}

void ClientConnection::connected() {
  if (io::connect_error(stream_.fd()) != 0 || !stream_.established())
    return fail(Failure::kConnect);
  state_ = State::kActive;
  deadline_.clear();
  send();
}

/// Sends what is left of the request, as far as the socket takes it.
void ClientConnection::send() {
  blocked_ = false;
  while (!sent()) {
    std::array<iovec, kVectorMax> vector;
    size_t count = 0;
    size_t total = 0;
    for (size_t i = next_piece_; i < pieces_.size() && count < kVectorMax; ++i) {
      const auto piece = pieces_[i].substr(i == next_piece_ ? piece_sent_ : 0);
      vector[count++] = {const_cast<char*>(piece.data()), piece.size()};
      total += piece.size();
    }
    const TimePoint offered = began_sending_ ? TimePoint() : client_.loop.clock().now();
    const ssize_t n = stream_.write({vector.data(), count});
    if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK) {
      // The server may have answered before it closed, so reading decides what this means.
      readable_ = peer_gone_ = true;
      client_.loop.at_turn_end(*this);
      return;
    }
    if (n > 0) count_sent(static_cast<size_t>(n));
    if (n > 0 && !std::exchange(began_sending_, true)) {
      call->handler_->on_sent(offered);
      if (state_ != State::kActive) return;
    }
    if (n < 0 || static_cast<size_t>(n) < total) {
      blocked_ = true;
      if (!head_done_) deadline_.set(client_.options.response_timeout);
      return;
    }
  }
  if (!head_done_) deadline_.set(client_.options.response_timeout);
}

void ClientConnection::count_sent(size_t n) {
  bytes_sent_ += n;
  while (n > 0) {
    const size_t left = pieces_[next_piece_].size() - piece_sent_;
    if (n < left) {
      piece_sent_ += n;
      return;
    }
    n -= left;
    piece_sent_ = 0;
    ++next_piece_;
  }
}

void ClientConnection::receive() {
  for (int reads = 0; reads < kReadsMax; ++reads) {
    const bool continues_head = static_cast<bool>(partial_);
    io::Buffer& into = continues_head ? partial_ : client_.scratch;
    if (!into) into = client_.loop.buffers().take(kReadBytes);
    if (continues_head && into.room_size() == 0) into.reserve_room(1);
    const size_t limit = into.room_size();
    const ssize_t n = stream_.read(into.room(), limit);
    if (n <= 0) {
      readable_ = false;
      if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
      return end_of_stream(n < 0);
    }
    answered_ = true;
    if (head_done_) deadline_.set(client_.options.body_timeout);
    if (!stream_.more(static_cast<size_t>(n), limit) && !peer_gone_) readable_ = false;
    if (continues_head) into.commit(static_cast<size_t>(n));
    const size_t size = continues_head ? into.size() : static_cast<size_t>(n);
    if (take(into.data(), size) == Next::kStop) return;
    if (!readable_ || paused_) return;
  }
  client_.loop.at_turn_end(*this);
}

ClientConnection::Next ClientConnection::take(char* bytes, size_t size) {
  io::Buffer held = std::move(partial_);
  size_t at = 0;
  while (!head_done_) {
    const size_t found = scanner_.scan({bytes + at, size - at});
    const bool more = found == HeadScanner::kMore;
    if (found == HeadScanner::kBad || (more ? size - at : found) > client_.options.head_bytes_max) {
      fail(Failure::kProtocol);
      return Next::kStop;
    }
    if (more) {
      if (held && at == 0) {
        partial_ = std::move(held);
      } else if (at < size) {
        partial_ = client_.loop.buffers().take(size - at);
        partial_.append({bytes + at, size - at});
      }
      return Next::kRead;
    }
    if (report_head({bytes + at, found}) == Next::kStop) return Next::kStop;
    at += found;
  }
  return take_body(bytes + at, size - at);
}

ClientConnection::Next ClientConnection::report_head(std::string_view head_bytes) {
  scanner_.reset();
  auto head =
      parse_response_head(head_bytes, head_method_, client_.options.headers_max, client_.fields);
  if (!head || head->status == 101) {
    fail(Failure::kProtocol);
    return Next::kStop;
  }
  if (head->status < 200) {
    call->handler_->on_inform(*head);
  } else {
    head_done_ = true;
    keep_alive_ = head->keep_alive;
    framing_ = head->framing;
    body_left_ = head->content_length;
    decoder_.reset();
    deadline_.set(client_.options.body_timeout);
    call->handler_->on_response(*head);
  }
  return state_ == State::kActive ? Next::kRead : Next::kStop;
}

ClientConnection::Next ClientConnection::take_body(char* bytes, size_t size) {
  switch (framing_) {
    case Framing::kNone:
      return report({}, true, size);
    case Framing::kLength: {
      const size_t n = std::min<uint64_t>(body_left_, size);
      body_left_ -= n;
      return report({bytes, n}, body_left_ == 0, size - n);
    }
    case Framing::kChunked: {
      const auto result = decoder_.decode(bytes, size);
      if (result.status == ChunkDecoder::Status::kBad) {
        fail(Failure::kProtocol);
        return Next::kStop;
      }
      return report(result.data, result.status == ChunkDecoder::Status::kDone,
                    size - result.consumed);
    }
    case Framing::kUntilClose:
      return report({bytes, size}, false, 0);
  }
  return Next::kStop;
}

/// Hands `data` to the call; with `last`, the connection has let go of the call before. `unread`:
/// bytes after the answer.
ClientConnection::Next ClientConnection::report(std::string_view data, bool last, size_t unread) {
  if (!last) {
    if (!data.empty()) call->handler_->on_data(data, false);
    return state_ == State::kActive ? Next::kRead : Next::kStop;
  }
  Call& ended = *std::exchange(call, nullptr);
  ended.connection_ = nullptr;
  const bool clean = keep_alive_ && unread == 0 && sent() && !readable_ && !peer_gone_;
  if (clean && !peer_.purged && peer_.idle.size() < client_.options.idle_max)
    rest();
  else
    close();
  ended.handler_->on_data(data, true);
  return Next::kStop;
}

void ClientConnection::end_of_stream(bool reset) {
  if (head_done_ && framing_ == Framing::kUntilClose && !reset) {
    report({}, true, 0);
    return;
  }
  fail(failure_at_end());
}

Failure ClientConnection::failure_at_end() const {
  if (answered_) return Failure::kBroken;
  if (stream_.refused()) return Failure::kConnect;
  if (reused_ && !peer_took_any()) return Failure::kStale;
  return sent() ? Failure::kReset : Failure::kUnsent;
}

bool ClientConnection::peer_took_any() const {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(stream_.fd(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return true;
  // Earlier requests were answered, so less than their bytes means that the kernel does not count.
  if (info.tcpi_bytes_acked < bytes_sent_earlier_) return true;
  // The connection's opening counts as one byte.
  return info.tcpi_bytes_acked > bytes_sent_earlier_ + 1;
}

void ClientConnection::fail(Failure failure) {
  if (failure == Failure::kStale && client_.options.resend_stale && call) {
    client_.connection_to(peer_.destination, true).begin_again(*this);
    return close();
  }
  Call* ended = std::exchange(call, nullptr);
  close();
  if (!ended) return;
  ended->connection_ = nullptr;
  ended->handler_->on_failure(failure);
}

void ClientConnection::fail_later(Failure failure) {
  failed_ = true;
  failure_ = failure;
  client_.loop.at_turn_end(*this);
}

void ClientConnection::abandon() {
  call = nullptr;
  close();
}

/// Becomes an idle connection, ready for another call.
void ClientConnection::rest() {
  state_ = State::kIdle;
  reused_ = true;
  blocked_ = paused_ = began_sending_ = answered_ = head_done_ = false;
  head_.release();
  pieces_.clear();
  next_piece_ = piece_sent_ = 0;
  bytes_sent_earlier_ = stream_.bytes_sent(bytes_sent_);
  scanner_.reset();
  peer_.idle.push_back(this);
  ++client_.idle;
  deadline_.set(client_.options.idle_timeout);
}

void ClientConnection::close() {
  if (state_ == State::kClosed) return;
  if (state_ == State::kIdle) {
    std::erase(peer_.idle, this);
    --client_.idle;
    stream_.say_end();
  }
  state_ = State::kClosed;
  if (stream_) client_.loop.forget(*this);
  stream_.close();
  head_.release();
  deadline_.clear();
  client_.loop.at_turn_end(*this);
}

void ClientConnection::on_deadline() {
  switch (state_) {
    case State::kConnecting:
      return fail(Failure::kConnect);
    case State::kActive:
      return fail(Failure::kTimeout);
    case State::kIdle:
      return close();
    case State::kClosed:
      return;
  }
}

}  // namespace llmd::http
