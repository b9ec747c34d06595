#pragma once

#include "base/arena.h"
#include "request/parser.h"

namespace llmd::request {

/// Where an API family puts the token counts of its answers.
enum class UsageFormat : uint8_t {
  /// The object "usage" at the top, or in "response" (the event of the responses API that ends a
  /// stream).
  kOpenAi,
  /// "usage" at the top or in "message" (the event that begins a stream); cached tokens are
  /// "cache_read_input_tokens".
  kAnthropic,
  /// "meta_info", in the last event of a stream: the one with a "finish_reason".
  kSglang,
};

/// Token counts of a JSON answer, which is not kept.
UsageScan* scan_json_usage(UsageFormat format, Arena& arena);

/// The same in every data line of an event stream. Later counts replace earlier ones: non-zero
/// prompt and completion counts and a present cached count (spec 01 §7). Lines and chunks may be
/// cut anywhere. Cost of a line without counts: a search for the word that goes with them. At most
/// 1 KiB of a line that is cut is held; a longer one is scanned as it comes.
UsageScan* scan_sse_usage(UsageFormat format, Arena& arena);

inline UsageScan* scan_usage(UsageFormat format, bool streaming, Arena& arena) {
  return streaming ? scan_sse_usage(format, arena) : scan_json_usage(format, arena);
}

}  // namespace llmd::request
