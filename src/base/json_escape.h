#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace llmd {

/// Length of the valid UTF-8 sequence at the front of `text`, or 0 when the bytes there are not
/// one. Requires: `text` is not empty.
size_t utf8_sequence(std::string_view text);

/// Whether eight bytes of a text all stand for themselves in a JSON string: ASCII without quotes,
/// backslashes and control characters.
inline bool is_plain_json(uint64_t bytes) {
  constexpr uint64_t kEach = 0x0101010101010101;
  const uint64_t quotes = (bytes ^ kEach * '"') - kEach;
  const uint64_t slashes = (bytes ^ kEach * '\\') - kEach;
  return ((bytes | (bytes - kEach * 0x20) | quotes | slashes) & kEach * 0x80) == 0;
}

/// How many bytes at the front of `text` stand for themselves in a JSON string.
inline size_t plain_json_prefix(std::string_view text) {
  const size_t size = text.size();
  const auto load = [&]<class Word>(Word word, size_t at) {
    std::memcpy(&word, text.data() + at, sizeof word);
    return word;
  };
  size_t at = 0;
  if (size >= 8) {
    while (size - at >= 8 && is_plain_json(load(uint64_t{}, at))) at += 8;
    // The last word overlaps the one before it.
    if (size - at < 8 && is_plain_json(load(uint64_t{}, size - 8))) return size;
  } else if (size >= 4) {
    const uint64_t last = load(uint32_t{}, size - 4);
    if (is_plain_json(load(uint32_t{}, 0) | last << 32)) return size;
  }
  for (; at < size; ++at) {
    const auto c = static_cast<unsigned char>(text[at]);
    if (c < 0x20 || c >= 0x80 || c == '"' || c == '\\') break;
  }
  return at;
}

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
  while ((at += plain_json_prefix(text.substr(at))) < text.size()) {
    const auto c = static_cast<unsigned char>(text[at]);
    if (c >= 0x80) {
      if (const size_t n = utf8_sequence(text.substr(at)); n != 0) {
        at += n;
      } else {
        replace(1, "\xEF\xBF\xBD");
      }
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
