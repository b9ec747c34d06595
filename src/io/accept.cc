#include "io/accept.h"

#include "base/log.h"

#include <cerrno>
#include <sys/socket.h>

namespace llmd::io {

Fd accept_next(const Fd& listener, bool& exhausted) {
  exhausted = false;
  for (;;) {
    Fd fd(::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd || errno == EAGAIN || errno == EWOULDBLOCK) return fd;
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
      log::warn("cannot accept connections for want of files or memory");
      exhausted = true;
      return fd;
    }
  }
}

}  // namespace llmd::io
