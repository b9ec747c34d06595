#pragma once

#include "io/buffer_pool.h"
#include "io/loop.h"
#include "io/socket.h"

#include <cerrno>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

namespace llmd::tls {

class Context;
class Session;
class Target;

/// A connection that carries bytes plainly or through TLS, with a socket's manners: non-blocking,
/// edge-triggered, faults in errno. Plain, every function is the one system call that it stands
/// for. With TLS the handshake happens within on_ready(), and until it has ended nothing can be
/// read or written (EAGAIN); its time-out is the user's. Threading: one loop.
class Stream {
 public:
  Stream();
  /// An accepted connection; plain when `context` is null.
  Stream(io::Fd fd, const std::shared_ptr<Context>& context, io::BufferPool& buffers);
  /// A connection on its way (io::connect_tcp()); plain when `target` is null.
  Stream(io::Fd fd, const std::shared_ptr<Target>& target, io::BufferPool& buffers);
  Stream(Stream&&) noexcept;
  Stream& operator=(Stream&&) noexcept;
  ~Stream();

  explicit operator bool() const { return static_cast<bool>(fd_); }
  int fd() const { return fd_.get(); }
  bool secure() const { return session_ != nullptr; }

  /// What the loop's report (io::Ready) means for the user. To be called with each, first.
  uint32_t on_ready(uint32_t ready) { return session_ ? session_on_ready(ready) : ready; }
  /// Of a client's connection that was reported writable: whether it came about.
  bool established() const { return !session_ || session_established(); }

  /// Whether TLS has agreed on `protocol` (ALPN).
  bool agreed_on(std::string_view protocol) const {
    return session_ && session_agreed_on(protocol);
  }

  /// As recv(). The end of a TLS stream is 0 when the peer has said that it is the end, and
  /// ECONNRESET when the connection just broke off.
  ssize_t read(char* into, size_t room) {
    if (session_) [[unlikely]]
      return session_read(into, room);
    ssize_t n;
    do {
      n = ::recv(fd_.get(), into, room, 0);
    } while (n < 0 && errno == EINTR);
    return n;
  }
  /// After a read() of `n` bytes into `room`: whether more may be there without a new report.
  bool more(size_t n, size_t room) const { return session_ ? session_more() : n == room; }

  /// As sendmsg(): how many bytes of `pieces` were taken. Bytes that were not must be offered
  /// again, first, by the next write.
  ssize_t write(std::span<const iovec> pieces) {
    return session_ ? session_write(pieces) : plain_write(pieces);
  }

  /// Whether what was reported as readable is TLS's own business, with no bytes and no end for the
  /// user. Never so when plain.
  bool quiet() { return session_ && session_quiet(); }
  /// Whether the peer has refused this client after the handshake, which is when servers look at
  /// its certificate.
  bool refused() const { return session_ && session_refused(); }
  /// Bytes given to the socket, of which `plain` are the user's.
  uint64_t bytes_sent(uint64_t plain) const { return session_ ? session_sent() : plain; }

  /// Tells a TLS peer that what it got is all there is. Nothing when plain: closing says it.
  void say_end() {
    if (session_) session_say_end();
  }
  /// Ends this direction, and says so.
  void shut_down() {
    say_end();
    ::shutdown(fd_.get(), SHUT_WR);
  }
  /// Closes. Without say_end() before, a TLS peer sees a broken connection.
  void close();

 private:
  uint32_t session_on_ready(uint32_t ready);
  ssize_t session_read(char* into, size_t room);
  bool session_more() const;
  ssize_t session_write(std::span<const iovec> pieces);
  ssize_t plain_write(std::span<const iovec> pieces);
  bool session_quiet();
  bool session_established() const;
  bool session_agreed_on(std::string_view protocol) const;
  bool session_refused() const;
  uint64_t session_sent() const;
  void session_say_end();

  io::Fd fd_;
  std::unique_ptr<Session> session_;
};

}  // namespace llmd::tls
