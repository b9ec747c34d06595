#pragma once

#include "request/parser.h"

namespace llmd::request {

/// Any body; nothing is read from it.
BodyScan* scan_raw(Arena& arena);

}  // namespace llmd::request
