#include "http2/connection.h"

#include "io/socket.h"

#include <array>
#include <cerrno>
#include <sys/uio.h>

namespace llmd::http2 {
namespace {

constexpr size_t kReadBytes = 64 * 1024;
/// Reads in a row before other connections get their turn.
constexpr int kReadsMax = 16;
/// What is gathered before it is offered to the socket.
constexpr size_t kGatherBytes = 256 * 1024;
constexpr size_t kVectorsMax = 64;
/// What a draining connection without streams waits for a peer to acknowledge that.
constexpr Nanos kDrainWait = std::chrono::seconds(1);

}  // namespace

Connection::Connection(io::Loop& loop, tls::Stream stream, Session::Role role, const Limits& limits,
                       const Counters& counters, const Timeouts& timeouts)
    : loop_(loop),
      stream_(std::move(stream)),
      session_(role, limits, counters, loop, *this),
      timeouts_(timeouts),
      established_(role == Session::Role::kServer),
      write_timer_(loop),
      head_timer_(loop),
      idle_timer_(loop),
      gather_(loop.buffers()) {
  loop_.watch(stream_.fd(), *this);
  loop_.at_turn_end(*this);
  watch_head();
}

Connection::~Connection() {
  if (stream_) loop_.forget(*this);
}

void Connection::on_ready(uint32_t ready) {
  ready = stream_.on_ready(ready);
  if (ready & io::kPeerGone) peer_gone_ = true;
  if (ready & (io::kReadable | io::kPeerGone)) readable_ = true;
  if (ready & io::kWritable) blocked_ = false;
  loop_.at_turn_end(*this);
  if (!established_) {
    if (!(ready & (io::kWritable | io::kPeerGone))) return;
    if (io::connect_error(stream_.fd()) != 0 || !stream_.established()) return close();
    established_ = true;
    if (!on_established()) return close();
  }
  read();
}

void Connection::output_ready() {
  if (stream_) loop_.at_turn_end(*this);
}

void Connection::receive(std::string_view bytes) {
  readable_ = true;
  session_over_ = !session_.receive(bytes);
}

void Connection::at_turn_end() {
  if (!stream_) return on_closed();
  if (!established_) return;
  read();
  if (stream_) flush();
  if (stream_) watch_idle();
  if (!stream_) loop_.at_turn_end(*this);
}

void Connection::read() {
  if (!readable_ || !stream_ || session_over_) return;
  io::Buffer buffer = loop_.buffers().take(kReadBytes);
  for (int reads = 0; readable_ && !session_over_; ++reads) {
    if (reads == kReadsMax) {
      loop_.at_turn_end(*this);
      break;
    }
    const ssize_t n = stream_.read(buffer.data(), buffer.capacity());
    if (n <= 0) {
      readable_ = false;
      if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
      return close();
    }
    // A short read has emptied the socket, and what comes later is a new edge; an end that was
    // seen must still be read.
    if (!stream_.more(static_cast<size_t>(n), buffer.capacity()) && !peer_gone_) readable_ = false;
    session_over_ = !session_.receive({buffer.data(), static_cast<size_t>(n)});
    if (!stream_) return;
  }
  watch_head();
}

/// A peer that begins a head, or a connection, has a limited time to end it.
void Connection::watch_head() {
  if (!stream_ || !session_.head_pending()) return head_timer_.cancel();
  if (head_timer_.armed() || timeouts_.handshake == Nanos(0)) return;
  head_timer_.arm(timeouts_.handshake, [this] { time_out(); });
}

void Connection::watch_idle() {
  const Nanos limit = session_.draining() ? kDrainWait : timeouts_.idle;
  if (limit == Nanos(0)) return;
  if (session_.streams() > 0) return idle_timer_.cancel();
  if (idle_timer_.armed()) return;
  idle_timer_.arm(limit, [this] {
    // A stream may have begun earlier in this turn.
    if (session_.streams() == 0) session_.terminate(Error::kNone);
  });
}

void Connection::drain() {
  session_.drain();
  idle_timer_.cancel();  // the wait is another
}

void Connection::time_out() {
  on_timeout();
  close();
}

void Connection::flush() {
  while (!blocked_) {
    if (gather_.empty()) session_over_ |= !session_.collect(gather_, kGatherBytes);
    const bool was_empty = gather_.empty();
    if (!was_empty && !send_gathered()) return;
    const bool more = session_.collected();
    if (!stream_) return;
    if (was_empty && !more) break;
  }
  if (blocked_) return;
  if (!session_over_ && !session_.over()) return;
  stream_.say_end();
  close(session_over_ ? Error::kProtocol : Error::kCancel);
}

/// Sends what is gathered; what the socket does not take is kept. False: the connection is closed.
bool Connection::send_gathered() {
  std::array<std::string_view, kVectorsMax> views;
  std::array<iovec, kVectorsMax> vectors;
  while (!gather_.empty()) {
    const size_t count = gather_.front(views);
    size_t total = 0;
    for (size_t i = 0; i < count; ++i) {
      vectors[i] = {const_cast<char*>(views[i].data()), views[i].size()};
      total += views[i].size();
    }
    const ssize_t n = stream_.write({vectors.data(), count});
    if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK) {
      close();
      return false;
    }
    if (n > 0) {
      write_timer_.cancel();
      gather_.sent(static_cast<size_t>(n));
    }
    if (n < static_cast<ssize_t>(total)) {
      blocked_ = true;
      gather_.keep_rest();
      if (!write_timer_.armed() && timeouts_.write > Nanos(0))
        write_timer_.arm(timeouts_.write, [this] { time_out(); });
      return true;
    }
  }
  return true;
}

void Connection::close(Error error) {
  if (!stream_) return;
  loop_.forget(*this);
  stream_.close();
  write_timer_.cancel();
  head_timer_.cancel();
  idle_timer_.cancel();
  session_.close_all(error);
  loop_.at_turn_end(*this);
}

}  // namespace llmd::http2
