#include "connection.h"

#include <array>
#include <cerrno>
#include <sys/uio.h>

namespace llmd::grpc {
namespace {

constexpr size_t kReadBytes = 64 * 1024;
/// Reads in a row before other connections get their turn.
constexpr int kReadsMax = 16;
/// What is gathered before it is offered to the socket.
constexpr size_t kGatherBytes = 256 * 1024;
constexpr size_t kVectorsMax = 64;

}  // namespace

Connection::Connection(Server::State& server, io::Fd fd, io::PeerLimit::Place place)
    : server_(server),
      place_(std::move(place)),
      stream_(std::move(fd), server.context.options.tls, server.context.loop.buffers()),
      write_timer_(server.context.loop),
      head_timer_(server.context.loop),
      gather_(server.context.loop.buffers()),
      session_(server.context, *this) {
  server.context.metrics.connections.add(1);
  server.context.loop.watch(stream_.fd(), *this);
  server.context.loop.at_turn_end(*this);
  watch_head();
}

Connection::~Connection() {
  server_.context.metrics.connections.add(-1);
  if (stream_) server_.context.loop.forget(*this);
}

void Connection::on_ready(uint32_t ready) {
  ready = stream_.on_ready(ready);
  if (ready & io::kPeerGone) peer_gone_ = true;
  if (ready & (io::kReadable | io::kPeerGone)) readable_ = true;
  if (ready & io::kWritable) blocked_ = false;
  server_.context.loop.at_turn_end(*this);
  read();
}

void Connection::output_ready() {
  if (stream_) server_.context.loop.at_turn_end(*this);
}

void Connection::at_turn_end() {
  if (!stream_) return server_.erase(*this);
  read();
  if (stream_) flush();
  if (!stream_) server_.context.loop.at_turn_end(*this);
}

void Connection::read() {
  if (!readable_ || !stream_ || session_over_) return;
  io::Buffer buffer = server_.context.loop.buffers().take(kReadBytes);
  for (int reads = 0; readable_ && !session_over_; ++reads) {
    if (reads == kReadsMax) {
      server_.context.loop.at_turn_end(*this);
      break;
    }
    const ssize_t n = stream_.read(buffer.data(), buffer.capacity());
    if (n <= 0) {
      readable_ = false;
      if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
      return close(StatusCode::kCancelled);
    }
    // A short read has emptied the socket, and what comes later is a new edge; an end that was
    // seen must still be read.
    if (!stream_.more(static_cast<size_t>(n), buffer.capacity()) && !peer_gone_) readable_ = false;
    session_over_ = !session_.receive({buffer.data(), static_cast<size_t>(n)});
  }
  watch_head();
}

/// A peer that begins a head, or a connection, has a limited time to end it.
void Connection::watch_head() {
  if (!stream_ || !session_.head_pending()) return head_timer_.cancel();
  if (head_timer_.armed()) return;
  head_timer_.arm(server_.context.options.handshake_timeout, [this] {
    server_.context.metrics.timeouts.add();
    close(StatusCode::kCancelled);
  });
}

void Connection::flush() {
  while (!blocked_) {
    if (gather_.empty()) session_over_ |= !session_.collect(gather_, kGatherBytes);
    const bool was_empty = gather_.empty();
    if (!was_empty && !send_gathered()) return;
    const bool more = session_.collected();
    if (was_empty && !more) break;
  }
  if (blocked_) return;
  if (!session_over_ && !session_.over()) return;
  stream_.say_end();
  close(StatusCode::kCancelled);
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
      close(StatusCode::kCancelled);
      return false;
    }
    if (n > 0) {
      write_timer_.cancel();
      gather_.sent(static_cast<size_t>(n));
    }
    if (n < static_cast<ssize_t>(total)) {
      blocked_ = true;
      gather_.keep_rest();
      if (!write_timer_.armed())
        write_timer_.arm(server_.context.options.write_timeout, [this] {
          server_.context.metrics.timeouts.add();
          close(StatusCode::kCancelled);
        });
      return true;
    }
  }
  return true;
}

void Connection::drain() {
  session_.drain();
}

void Connection::close(StatusCode why) {
  if (!stream_) return;
  session_.abort_all(why);
  server_.context.loop.forget(*this);
  stream_.close();
  write_timer_.cancel();
  head_timer_.cancel();
  server_.context.loop.at_turn_end(*this);
}

}  // namespace llmd::grpc
