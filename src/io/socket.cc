#include "io/socket.h"

#include "base/log.h"

#include <fmt/format.h>

#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <unistd.h>

namespace llmd::io {

namespace {

std::unexpected<Error> system_fault(std::string_view action, const SocketAddress& address,
                                    int error) {
  return fail(Code::kInternal,
              fmt::format("cannot {} {}: {}", action, address.to_string(), std::strerror(error)));
}

}  // namespace

void Fd::reset(int fd) {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

Result<SocketAddress> SocketAddress::parse(std::string_view address, uint16_t port) {
  SocketAddress result;
  if (address.empty() || address == "*") address = "0.0.0.0";
  char text[INET6_ADDRSTRLEN + 1];
  if (address.size() < sizeof text) {
    std::memcpy(text, address.data(), address.size());
    text[address.size()] = 0;
    if (inet_pton(AF_INET, text, &result.storage_.v4.sin_addr) == 1) {
      result.storage_.v4.sin_family = AF_INET;
      result.storage_.v4.sin_port = htons(port);
      return result;
    }
    result.storage_.v6 = {};
    if (inet_pton(AF_INET6, text, &result.storage_.v6.sin6_addr) == 1) {
      result.storage_.v6.sin6_family = AF_INET6;
      result.storage_.v6.sin6_port = htons(port);
      return result;
    }
  }
  return fail(Code::kBadRequest, fmt::format("'{}' is not an IPv4 or IPv6 address", address));
}

SocketAddress SocketAddress::of(int fd, bool peer) {
  SocketAddress result;
  socklen_t length = sizeof result.storage_;
  if (peer)
    ::getpeername(fd, result.get(), &length);
  else
    ::getsockname(fd, result.get(), &length);
  return result;
}

socklen_t SocketAddress::length() const {
  return family() == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
}

bool SocketAddress::is_loopback() const {
  if (family() == AF_INET) return ntohl(storage_.v4.sin_addr.s_addr) >> 24 == 127;
  const auto& v6 = storage_.v6.sin6_addr;
  return family() == AF_INET6 &&
         (IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127));
}

uint16_t SocketAddress::port() const {
  return ntohs(storage_.v4.sin_port);
}

std::string SocketAddress::to_string() const {
  char text[INET6_ADDRSTRLEN] = "";
  if (family() == AF_INET6) {
    inet_ntop(AF_INET6, &storage_.v6.sin6_addr, text, sizeof text);
    return fmt::format("[{}]:{}", text, port());
  }
  inet_ntop(AF_INET, &storage_.v4.sin_addr, text, sizeof text);
  return fmt::format("{}:{}", text, port());
}

bool SocketAddress::operator==(const SocketAddress& other) const {
  if (family() != other.family() || port() != other.port()) return false;
  return family() == AF_INET6 ? std::memcmp(&storage_.v6.sin6_addr, &other.storage_.v6.sin6_addr,
                                            sizeof(in6_addr)) == 0
                              : storage_.v4.sin_addr.s_addr == other.storage_.v4.sin_addr.s_addr;
}

size_t SocketAddress::hash() const {
  uint64_t words[2] = {storage_.v4.sin_addr.s_addr, 0};
  if (family() == AF_INET6) std::memcpy(words, &storage_.v6.sin6_addr, sizeof words);
  uint64_t h = words[0] * 0x9e3779b97f4a7c15 ^ (words[1] + port()) * 0xc2b2ae3d27d4eb4f;
  return h ^ h >> 32;
}

Result<Fd> listen_tcp(const SocketAddress& address, bool shared_port, int backlog) {
  Fd fd(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return system_fault("open a socket for", address, errno);
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (shared_port) ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof on);
  if (::bind(fd.get(), address.get(), address.length()) != 0)
    return system_fault("bind to", address, errno);
  if (::listen(fd.get(), backlog) != 0) return system_fault("listen on", address, errno);
  return fd;
}

Result<Fd> connect_tcp(const SocketAddress& address) {
  Fd fd(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd) return system_fault("open a socket for", address, errno);
  set_no_delay(fd.get());
  if (::connect(fd.get(), address.get(), address.length()) != 0 && errno != EINPROGRESS)
    return system_fault("connect to", address, errno);
  return fd;
}

Result<Fd> connect_unix(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path)
    return fail(Code::kBadRequest, "cannot connect to " + path + ": the path is too long");
  path.copy(address.sun_path, path.size());
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd || ::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0)
    return fail(Code::kServiceUnavailable,
                "cannot connect to " + path + ": " + std::strerror(errno));
  return fd;
}

int connect_error(int fd) {
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
  return error;
}

void set_no_delay(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

uint64_t raise_file_limit(uint64_t wanted) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  if (limit.rlim_cur < limit.rlim_max) {
    const rlimit raised{limit.rlim_max, limit.rlim_max};
    if (::setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  }
  if (limit.rlim_cur < wanted)
    log::warn("open files are limited below what the connections may need",
              {{"limit", static_cast<int64_t>(limit.rlim_cur)},
               {"wanted", static_cast<int64_t>(wanted)}});
  return limit.rlim_cur;
}

}  // namespace llmd::io
