#pragma once

#include "request/parser.h"

namespace llmd::request {

/// A request of Anthropic's messages API, made in `arena`.
BodyScan* scan_messages(Arena& arena);

}  // namespace llmd::request
