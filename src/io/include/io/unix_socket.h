#pragma once

#include "base/result.h"
#include "io/socket.h"

#include <string>

namespace llmd::io {

/// A non-blocking listener on the unix socket at `path`, whose folder is made where there is none.
/// A socket that nobody listens on any more is replaced. Errors name the path.
Result<Fd> listen_unix(const std::string& path, int backlog = 1024);

}  // namespace llmd::io
