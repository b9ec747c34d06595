#include "trace/span_context.h"

namespace llmd::trace {
namespace {

constexpr std::string_view kDigits = "0123456789abcdef";

/// Lower-case hexadecimal digits only, as the recommendation asks for.
std::optional<uint64_t> parse_hex(std::string_view text) {
  uint64_t value = 0;
  for (const char c : text) {
    const size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    value = value << 4 | digit;
  }
  return value;
}

char* put_hex(char* at, uint64_t value, int digits) {
  for (int i = digits - 1; i >= 0; --i) *at++ = kDigits[value >> (4 * i) & 15];
  return at;
}

}  // namespace

std::optional<SpanContext> parse_traceparent(std::string_view value) {
  if (value.size() < kTraceparentBytes) return std::nullopt;
  if (value[2] != '-' || value[35] != '-' || value[52] != '-') return std::nullopt;
  const auto version = parse_hex(value.substr(0, 2));
  const auto high = parse_hex(value.substr(3, 16)), low = parse_hex(value.substr(19, 16));
  const auto span = parse_hex(value.substr(36, 16)), flags = parse_hex(value.substr(53, 2));
  if (!version || !high || !low || !span || !flags) return std::nullopt;
  if (*version == 0xff || (*high | *low) == 0 || *span == 0) return std::nullopt;
  const bool longer = value.size() > kTraceparentBytes;
  if (longer && (*version == 0 || value[kTraceparentBytes] != '-')) return std::nullopt;
  return SpanContext{*high, *low, *span, (*flags & 1) != 0};
}

std::array<char, kTraceparentBytes> format_traceparent(const SpanContext& context) {
  std::array<char, kTraceparentBytes> out;
  char* at = put_hex(out.data(), 0, 2);
  *at++ = '-';
  at = put_hex(at, context.trace_high, 16);
  at = put_hex(at, context.trace_low, 16);
  *at++ = '-';
  at = put_hex(at, context.span, 16);
  *at++ = '-';
  put_hex(at, context.sampled ? 1 : 0, 2);
  return out;
}

}  // namespace llmd::trace
