#pragma once

#include <cstddef>
#include <string_view>

namespace llmd {

/// Length of the valid UTF-8 sequence at the front of `text`, or 0 when the bytes there are not
/// one. Requires: `text` is not empty.
size_t utf8_sequence(std::string_view text);

/// Hands the inside of a JSON string to `put(std::string_view)` piece by piece. Invalid bytes
/// become U+FFFD, one each.
template <class Put>
void escape_json(std::string_view text, Put&& put) {
  constexpr char kHex[] = "0123456789abcdef";
  size_t plain = 0;  // start of the run that needs no change
  size_t at = 0;
  const auto replace = [&](size_t bytes, std::string_view with) {
    if (at > plain) put(text.substr(plain, at - plain));
    put(with);
    at += bytes;
    plain = at;
  };
  while (at < text.size()) {
    const auto c = static_cast<unsigned char>(text[at]);
    if (c >= 0x80) {
      if (const size_t n = utf8_sequence(text.substr(at)); n != 0) {
        at += n;
      } else {
        replace(1, "\xEF\xBF\xBD");
      }
    } else if (c >= 0x20 && c != '"' && c != '\\') {
      ++at;
    } else {
      switch (c) {
        case '"':
          replace(1, "\\\"");
          break;
        case '\\':
          replace(1, "\\\\");
          break;
        case '\n':
          replace(1, "\\n");
          break;
        case '\r':
          replace(1, "\\r");
          break;
        case '\t':
          replace(1, "\\t");
          break;
        default: {
          const char escape[] = {'\\', 'u', '0', '0', kHex[c >> 4], kHex[c & 15]};
          replace(1, {escape, sizeof escape});
        }
      }
    }
  }
  if (at > plain) put(text.substr(plain));
}

}  // namespace llmd
