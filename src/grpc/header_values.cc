#include "grpc/header_values.h"

namespace llmd::grpc {

std::optional<Nanos> parse_timeout(std::string_view text) {
  if (text.size() < 2 || text.size() > 9) return std::nullopt;
  int64_t n = 0;
  for (const char c : text.substr(0, text.size() - 1)) {
    if (c < '0' || c > '9') return std::nullopt;
    n = n * 10 + (c - '0');
  }
  switch (text.back()) {
    case 'H':
      return std::chrono::seconds(n * 3600);
    case 'M':
      return std::chrono::seconds(n * 60);
    case 'S':
      return std::chrono::seconds(n);
    case 'm':
      return std::chrono::milliseconds(n);
    case 'u':
      return std::chrono::microseconds(n);
    case 'n':
      return std::chrono::nanoseconds(n);
    default:
      return std::nullopt;
  }
}

std::string percent_encoded(std::string_view text) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    const auto byte = static_cast<uint8_t>(c);
    if (byte >= 0x20 && byte <= 0x7E && byte != '%') {
      out += c;
    } else {
      out += '%';
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    }
  }
  return out;
}

}  // namespace llmd::grpc
