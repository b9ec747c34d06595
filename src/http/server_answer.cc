#include "server_connection.h"

#include "base/check.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <sys/uio.h>

namespace llmd::http {

namespace {

/// Bodies up to this size are copied behind their head, which is cheaper than another entry of the
/// vector.
constexpr size_t kCopyBytesMax = 4096;

std::string_view digits(std::array<char, 24>& space, uint64_t value, int base = 10) {
  const auto end = std::to_chars(space.data(), space.data() + space.size(), value, base).ptr;
  return {space.data(), static_cast<size_t>(end - space.data())};
}

}  // namespace

io::SocketAddress ServerConnection::peer() const {
  return io::SocketAddress::of(stream_.fd(), true);
}

void ServerConnection::resume_body() {
  if (std::exchange(body_paused_, false) && state_ == State::kBody) server_.loop.at_turn_end(*this);
}

void ServerConnection::abort() {
  if (!std::exchange(announced_, false)) return;
  --server_.open_exchanges;
  close();
}

void ServerConnection::append_out(std::string_view bytes) {
  if (!out_) out_ = server_.loop.buffers().take(bytes.size());
  out_.append(bytes);
}

void ServerConnection::append_head(int status, std::span<const HeaderField> headers, bool chunked,
                                   std::optional<uint64_t> length) {
  std::array<char, 24> space;
  if (!out_) out_ = server_.loop.buffers().take();
  out_.append({"HTTP/1.1 ", digits(space, static_cast<uint64_t>(status)), " ",
               reason_phrase(status), "\r\n"});
  for (const auto& [name, value] : headers) out_.append({name, ": ", value, "\r\n"});
  if (length) out_.append({"Content-Length: ", digits(space, *length), "\r\n"});
  std::string_view connection;
  if (status >= 200) {
    if (server_.stopping) keep_alive_ = false;
    if (!keep_alive_)
      connection = "Connection: close\r\n";
    else if (head_.minor_version == 0)
      connection = "Connection: keep-alive\r\n";
  }
  out_.append({chunked ? "Transfer-Encoding: chunked\r\n" : "", connection, "\r\n"});
}

/// An answer that begins before the request has arrived is the connection's last: what is still to
/// come is not waited for.
void ServerConnection::end_after_early_answer() {
  if (state_ == State::kBody && head_.framing != Framing::kNone) keep_alive_ = false;
}

void ServerConnection::respond(int status, std::span<const HeaderField> headers,
                               std::string_view body) {
  if (!announced_ || !SOFT_CHECK(answer_ == Answer::kNone)) return;
  const bool bodiless = status == 204 || status == 304;
  end_after_early_answer();
  append_head(status, headers, false,
              bodiless ? std::nullopt : std::optional<uint64_t>(body.size()));
  if (bodiless || head_.method == "HEAD") body = {};
  if (blocked_ || body.size() <= kCopyBytesMax) {
    append_out(body);
    if (!blocked_) flush();
  } else {
    send_pieces({&body, 1});
  }
  answer_ended();
}

void ServerConnection::start(int status, std::span<const HeaderField> headers,
                             std::optional<uint64_t> length) {
  if (!announced_ || !SOFT_CHECK(answer_ == Answer::kNone)) return;
  const bool bodiless = status == 204 || status == 304;
  suppress_body_ = bodiless || head_.method == "HEAD";
  answer_has_length_ = length.has_value() && !suppress_body_;
  answer_left_ = length.value_or(0);
  chunked_answer_ = !suppress_body_ && !length && head_.minor_version > 0;
  if (!suppress_body_ && !length && !chunked_answer_) keep_alive_ = false;
  if (status == 204) length.reset();
  end_after_early_answer();
  append_head(status, headers, chunked_answer_, length);
  answer_ = Answer::kStarted;
  server_.loop.at_turn_end(*this);
}

bool ServerConnection::write(std::string_view data, bool last) {
  if (!announced_ || !SOFT_CHECK(answer_ == Answer::kStarted)) return true;
  if (suppress_body_) data = {};
  if (answer_has_length_) {
    if (!SOFT_CHECK(data.size() <= answer_left_)) data = data.substr(0, answer_left_);
    answer_left_ -= data.size();
    if (last && answer_left_ > 0) {
      abort();
      return true;
    }
  }
  std::array<char, 24> space;
  std::array<std::string_view, 4> pieces;
  size_t count = 0;
  if (chunked_answer_) {
    if (!data.empty()) {
      pieces[count++] = digits(space, data.size(), 16);
      pieces[count++] = "\r\n";
      pieces[count++] = data;
      pieces[count++] = last ? "\r\n0\r\n\r\n" : "\r\n";
    } else if (last) {
      pieces[count++] = "0\r\n\r\n";
    }
  } else if (!data.empty()) {
    pieces[count++] = data;
  }
  if (blocked_) {
    for (size_t i = 0; i < count; ++i) append_out(pieces[i]);
  } else {
    send_pieces({pieces.data(), count});
  }
  if (last)
    answer_ended();
  else
    owes_writable_ = blocked_;
  return !blocked_;
}

void ServerConnection::inform(int status, std::span<const HeaderField> headers) {
  if (!announced_ || answer_ != Answer::kNone || head_.minor_version == 0) return;
  append_head(status, headers, false, std::nullopt);
  if (!blocked_) flush();
}

/// Sends out_ and then `pieces` in one call; keeps what the socket does not take in out_. Requires:
/// not blocked.
void ServerConnection::send_pieces(std::span<const std::string_view> pieces) {
  std::array<iovec, 8> vector;
  size_t count = 0;
  size_t total = out_.size();
  if (out_.size() > 0) vector[count++] = {out_.data(), out_.size()};
  for (const auto piece : pieces) {
    vector[count++] = {const_cast<char*>(piece.data()), piece.size()};
    total += piece.size();
  }
  if (total == 0) return;
  const ssize_t n = stream_.write({vector.data(), count});
  if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK) {
    // The client is gone; the end of the turn tells the handler, who may be in the middle of a
    // call.
    out_.release();
    peer_gone_ = true;
    readable_ = true;
    keep_alive_ = false;
    server_.loop.at_turn_end(*this);
    return;
  }
  auto sent = static_cast<size_t>(std::max<ssize_t>(n, 0));
  if (sent == total) {
    out_.release();
    return;
  }
  blocked_ = true;
  deadline_.set(server_.options.write_timeout);
  const size_t from_out = std::min(sent, out_.size());
  if (from_out > 0) out_.consume(from_out);
  sent -= from_out;
  for (const auto piece : pieces) {
    const size_t skip = std::min(sent, piece.size());
    sent -= skip;
    append_out(piece.substr(skip));
  }
}

/// Sends out_, and tells the handler when a socket that was full has taken everything.
void ServerConnection::flush() {
  const bool was_blocked = std::exchange(blocked_, false);
  send_pieces({});
  if (blocked_ || !was_blocked || state_ == State::kClosed) return;
  if (state_ == State::kLingering) {
    stream_.shut_down();
    return;
  }
  if (state_ == State::kIdle)
    deadline_.set(server_.options.idle_timeout);
  else
    deadline_.clear();
  if (announced_ && std::exchange(owes_writable_, false)) handler_->on_writable(*this);
}

void ServerConnection::answer_ended() {
  answer_ = Answer::kEnded;
  announced_ = false;
  --server_.open_exchanges;
  if (!advancing_) server_.loop.at_turn_end(*this);
}

}  // namespace llmd::http
