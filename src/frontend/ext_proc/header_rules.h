#pragma once

#include "base/headers.h"

#include <string_view>
#include <vector>

namespace llmd::frontend::ext_proc {

/// Whether a header belongs to routing and is never echoed: control headers of clients, what only
/// this picker sets, and the length, which is written anew.
bool is_system_owned(std::string_view name);

/// Whether a client's header is taken off the request: those that tell servers where to connect
/// to, and those that only the proxy and the picker tell each other.
bool is_removed(std::string_view name);

/// Appends to `out` the lines of `headers` to set again: all but those that are system-owned or
/// removed, those that occur more than once, which setting would collapse, and those that `out`
/// has. Nothing when there are more lines than a proxy takes back.
void echo(HeaderView headers, std::vector<HeaderField>& out);

}  // namespace llmd::frontend::ext_proc
