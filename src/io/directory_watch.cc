#include "io/directory_watch.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <sys/inotify.h>
#include <unistd.h>
#include <utility>

namespace llmd::io {
namespace {

constexpr uint32_t kEvents = IN_MODIFY | IN_CLOSE_WRITE | IN_CREATE | IN_DELETE | IN_MOVED_FROM |
                             IN_MOVED_TO | IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR;
constexpr uint32_t kGone = IN_DELETE_SELF | IN_MOVE_SELF | IN_IGNORED | IN_UNMOUNT;

}  // namespace

DirectoryWatch::DirectoryWatch(DirectoryWatch&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)) {}

DirectoryWatch& DirectoryWatch::operator=(DirectoryWatch&& other) noexcept {
  std::swap(fd_, other.fd_);
  return *this;
}

DirectoryWatch::~DirectoryWatch() {
  close();
}

void DirectoryWatch::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

Result<DirectoryWatch> DirectoryWatch::open(const std::string& directory) {
  DirectoryWatch watch(::inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  if (watch.fd_ < 0 || ::inotify_add_watch(watch.fd_, directory.c_str(), kEvents) < 0)
    return fail(Code::kInternal,
                fmt::format("cannot watch directory '{}': {}", directory, std::strerror(errno)));
  return watch;
}

bool DirectoryWatch::poll() {
  bool changed = false;
  alignas(inotify_event) char events[4096];
  while (fd_ >= 0) {
    const ssize_t bytes = ::read(fd_, events, sizeof events);
    if (bytes <= 0) break;
    changed = true;
    bool gone = false;
    for (const char* at = events; at < events + bytes;) {
      inotify_event event;
      std::memcpy(&event, at, sizeof event);
      gone |= (event.mask & kGone) != 0;
      at += sizeof event + event.len;
    }
    if (gone) close();
  }
  return changed;
}

}  // namespace llmd::io
