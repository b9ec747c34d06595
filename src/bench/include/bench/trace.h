#pragma once

#include "base/clock.h"
#include "base/result.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace llmd::bench {

/// A request that was recorded somewhere, without its text.
struct TraceRequest {
  static constexpr uint32_t kPieceTokens = 512;

  Nanos at{0};  // since the first
  uint32_t input_tokens = 0;
  uint32_t output_tokens = 0;
  /// The prompt in pieces of kPieceTokens, the last one shorter. Requests with the same pieces at
  /// the start have that much of their prompts in common. Empty: it shares nothing.
  std::vector<uint64_t> pieces;

  bool operator==(const TraceRequest&) const = default;
};

using Trace = std::vector<TraceRequest>;

/// Reads a trace of Mooncake (JSON lines with timestamp in ms, input_length, output_length,
/// hash_ids) or of Azure (CSV: TIMESTAMP,ContextTokens,GeneratedTokens), in the order of time.
/// Errors name the line.
Result<Trace> parse_trace(std::string_view text);
Result<Trace> read_trace(const std::string& path);

/// The body of a streamed completion, usage included, that asks for as many tokens as were
/// generated, at most `output_max`. The prompt is token ids that follow from the pieces, or else
/// from `number`, which tells requests apart.
std::string trace_body(const TraceRequest& request, uint64_t number, std::string_view model,
                       uint32_t output_max);

}  // namespace llmd::bench
