#pragma once

#include "io/loop.h"
#include "io/socket.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <functional>
#include <string>
#include <string_view>
#include <sys/socket.h>

/// Raw socket peers for tests: what they send and see is bytes.
namespace llmd::http::testing {

/// Turns `loop` until `done` or until much longer than any test needs.
inline ::testing::AssertionResult pump(io::Loop& loop, const std::function<bool()>& done) {
  for (int i = 0; i < 4000; ++i) {
    if (done()) return ::testing::AssertionSuccess();
    loop.turn(std::chrono::milliseconds(1));
  }
  return ::testing::AssertionFailure() << "nothing more happened";
}

/// Lets everything that can happen without waiting happen.
inline void settle(io::Loop& loop) {
  for (int i = 0; i < 20; ++i) loop.turn(Nanos(0));
}

class Wire {
 public:
  Wire() = default;
  explicit Wire(io::Fd fd) : fd_(std::move(fd)) {}
  static Wire connect(uint16_t port) {
    Wire wire(std::move(*io::connect_tcp(*io::SocketAddress::parse("127.0.0.1", port))));
    return wire;
  }

  explicit operator bool() const { return static_cast<bool>(fd_); }
  int fd() const { return fd_.get(); }
  /// Sends all of `bytes`, which fit into the socket's buffer.
  void send(std::string_view bytes) {
    ASSERT_EQ(::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  /// Sends what fits now and returns how much that was.
  size_t send_some(std::string_view bytes) {
    const ssize_t n = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    return n > 0 ? static_cast<size_t>(n) : 0;
  }
  /// Appends what has arrived to seen().
  void look(size_t limit = SIZE_MAX) {
    char space[65536];
    while (limit > 0) {
      const ssize_t n = ::recv(fd_.get(), space, std::min(sizeof space, limit), 0);
      if (n <= 0) {
        if (n == 0 || (errno != EAGAIN && errno != EINTR)) ended_ = true;
        was_reset_ |= n < 0 && errno == ECONNRESET;
        return;
      }
      seen_.append(space, static_cast<size_t>(n));
      limit -= static_cast<size_t>(n);
    }
  }
  const std::string& seen() const { return seen_; }
  bool ended() const { return ended_; }
  bool was_reset() const { return was_reset_; }
  void forget_seen() { seen_.clear(); }
  void close() { fd_.reset(); }
  void half_close() { ::shutdown(fd_.get(), SHUT_WR); }
  /// Makes the next close() send a reset.
  void reset_on_close() {
    const linger now{1, 0};
    ::setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
  }

  ::testing::AssertionResult sees(io::Loop& loop, std::string_view text) {
    auto result = pump(loop, [&] {
      look();
      return seen_.find(text) != std::string::npos;
    });
    return result ? result : result << "; seen: " << seen_;
  }
  ::testing::AssertionResult sees_end(io::Loop& loop) {
    auto result = pump(loop, [&] {
      look();
      return ended_;
    });
    return result ? result : result << "; seen: " << seen_;
  }

 private:
  io::Fd fd_;
  std::string seen_;
  bool ended_ = false;
  bool was_reset_ = false;
};

/// A listener whose connections the test plays by hand.
class WireListener {
 public:
  WireListener() : fd_(std::move(*io::listen_tcp(*io::SocketAddress::parse("127.0.0.1", 0)))) {}
  uint16_t port() const { return io::SocketAddress::of(fd_.get()).port(); }
  Wire accept(io::Loop& loop) {
    Wire wire;
    EXPECT_TRUE(pump(loop, [&] {
      const int fd = ::accept4(fd_.get(), nullptr, nullptr, SOCK_NONBLOCK);
      if (fd >= 0) wire = Wire(io::Fd(fd));
      return fd >= 0;
    }));
    return wire;
  }
  void close() { fd_.reset(); }

 private:
  io::Fd fd_;
};

}  // namespace llmd::http::testing
