#pragma once

#include "base/result.h"

#include <cstdint>
#include <netinet/in.h>
#include <string>
#include <string_view>
#include <sys/socket.h>

namespace llmd::io {

/// Owns a file descriptor.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(other.release()) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) reset(other.release());
    return *this;
  }
  ~Fd() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() {
    const int fd = fd_;
    fd_ = -1;
    return fd;
  }
  void reset(int fd = -1);

 private:
  int fd_ = -1;
};

/// An IPv4 or IPv6 address with port.
class SocketAddress {
 public:
  SocketAddress() { storage_.v4.sin_family = AF_UNSPEC; }

  /// `address` is a literal without brackets; names are not resolved. "" and "*" stand for any
  /// address.
  static Result<SocketAddress> parse(std::string_view address, uint16_t port);
  /// The address that `fd` is bound to, or is connected to with `peer`.
  static SocketAddress of(int fd, bool peer = false);

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage_); }
  socklen_t length() const;
  int family() const { return storage_.v4.sin_family; }
  uint16_t port() const;
  /// 127.0.0.0/8, also as a mapped IPv6 address, and ::1.
  bool is_loopback() const;
  bool operator==(const SocketAddress& other) const;
  size_t hash() const;
  /// "10.0.0.1:80", "[::1]:80"
  std::string to_string() const;

 private:
  union {
    sockaddr_in v4;
    sockaddr_in6 v6;
  } storage_{};
};

/// A non-blocking listener. `shared_port`: SO_REUSEPORT, so that several loops accept on one port.
/// Port 0 asks the system for a free one (read it back with SocketAddress::of).
Result<Fd> listen_tcp(const SocketAddress& address, bool shared_port = false, int backlog = 1024);

/// A non-blocking socket on its way to `address`: writable when connected, connect_error() tells
/// how it went.
Result<Fd> connect_tcp(const SocketAddress& address);
/// The same to the unix socket at `path`.
Result<Fd> connect_unix(const std::string& path);
/// 0 when the connection attempt on `fd` succeeded, else its errno.
int connect_error(int fd);

/// Turns Nagle's delay off.
void set_no_delay(int fd);

/// Raises the soft limit of open files to the hard one; returns the limit in force. Logs a warning
/// when `wanted` files exceed it.
uint64_t raise_file_limit(uint64_t wanted);

}  // namespace llmd::io
