#include "io/unix_socket.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <sys/un.h>
#include <unistd.h>

namespace llmd::io {
namespace {

std::unexpected<Error> fault(const std::string& path, const char* why) {
  return fail(Code::kServiceUnavailable, "cannot listen on " + path + ": " + why);
}

}  // namespace

Result<Fd> listen_unix(const std::string& path, int backlog) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return fault(path, "the path is too long");
  path.copy(address.sun_path, path.size());
  std::error_code ignored;
  const auto folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, ignored);
  if (std::filesystem::is_socket(path, ignored)) {
    if (connect_unix(path)) return fault(path, std::strerror(EADDRINUSE));
    ::unlink(path.c_str());
  }
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd || ::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(fd.get(), backlog) != 0)
    return fault(path, std::strerror(errno));
  return fd;
}

}  // namespace llmd::io
