#pragma once

#include "base/clock.h"
#include "io/socket.h"

namespace llmd::io {

/// How long accepting rests when the process is out of files or memory.
inline constexpr Nanos kAcceptRetry = std::chrono::milliseconds(100);

/// The next connection that waits at `listener`, non-blocking. None when nobody waits; none with
/// `exhausted` set, and a warning in the log, when the process lacks files or memory for it.
/// Connections that broke off while they waited are passed over.
Fd accept_next(const Fd& listener, bool& exhausted);

}  // namespace llmd::io
