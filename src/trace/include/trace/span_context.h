#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace llmd::trace {

/// Which span of which trace, as the W3C header `traceparent` carries it.
struct SpanContext {
  uint64_t trace_high = 0;
  uint64_t trace_low = 0;
  uint64_t span = 0;
  bool sampled = false;
};

inline constexpr size_t kTraceparentBytes = 55;

/// Nothing when the value is not valid by the recommendation: versions above 00 may be longer.
std::optional<SpanContext> parse_traceparent(std::string_view value);

/// "00-<trace>-<span>-<flags>"
std::array<char, kTraceparentBytes> format_traceparent(const SpanContext& context);

}  // namespace llmd::trace
