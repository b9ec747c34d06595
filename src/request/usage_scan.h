#pragma once

#include "base/arena.h"
#include "request/parser.h"

namespace llmd::request {

/// Token counts of an answer in the OpenAI APIs: the object "usage" at the top, or in "response"
/// (the event of the responses API that ends a stream). The answer is not kept.
UsageScan* scan_json_usage(Arena& arena);

/// The same in every data line of an event stream. Later counts replace earlier ones: non-zero
/// prompt and completion counts and a present cached count (spec 01 §7). Lines and chunks may be
/// cut anywhere. Cost of a line without usage: a search for the word. At most 1 KiB of a line that
/// is cut is held; a longer one is scanned as it comes.
UsageScan* scan_sse_usage(Arena& arena);

}  // namespace llmd::request
