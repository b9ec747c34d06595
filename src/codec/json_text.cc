#include "codec/json_text.h"

#include <cstdint>
#include <cstring>

namespace llmd::codec {
namespace {

/// The value of four hexadecimal digits.
uint32_t hex4(const char* p) {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) {
    const auto c = static_cast<unsigned char>(p[i]);
    value = value << 4 | (c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10u);
  }
  return value;
}

char* put_utf8(char* out, uint32_t c) {
  if (c < 0x80) {
    *out++ = static_cast<char>(c);
  } else if (c < 0x800) {
    *out++ = static_cast<char>(0xc0 | c >> 6);
    *out++ = static_cast<char>(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    *out++ = static_cast<char>(0xe0 | c >> 12);
    *out++ = static_cast<char>(0x80 | (c >> 6 & 0x3f));
    *out++ = static_cast<char>(0x80 | (c & 0x3f));
  } else {
    *out++ = static_cast<char>(0xf0 | c >> 18);
    *out++ = static_cast<char>(0x80 | (c >> 12 & 0x3f));
    *out++ = static_cast<char>(0x80 | (c >> 6 & 0x3f));
    *out++ = static_cast<char>(0x80 | (c & 0x3f));
  }
  return out;
}

char simple_escape(char c) {
  switch (c) {
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'n':
      return '\n';
    case 'r':
      return '\r';
    case 't':
      return '\t';
    default:
      return c;  // quote, backslash, slash
  }
}

/// Writes the character of the \u escape whose digits start at `p`, the low half of a surrogate
/// pair included. Returns the first byte after what it read.
const char* unescape_unicode(const char* p, const char* end, char*& out) {
  uint32_t c = hex4(p);
  p += 4;
  if (c >= 0xd800 && c < 0xe000) {
    const bool pair_follows = c < 0xdc00 && end - p >= 6 && p[0] == '\\' && p[1] == 'u';
    const uint32_t low = pair_follows ? hex4(p + 2) : 0;
    if (low >= 0xdc00 && low < 0xe000) {
      c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
      p += 6;
    } else {
      c = 0xfffd;
    }
  }
  out = put_utf8(out, c);
  return p;
}

}  // namespace

size_t unescape_json(std::string_view text, char* out) {
  char* const first = out;
  const char* p = text.data();
  const char* const end = p + text.size();
  while (p < end) {
    const auto* slash = static_cast<const char*>(std::memchr(p, '\\', end - p));
    const size_t plain = (slash ? slash : end) - p;
    std::memcpy(out, p, plain);
    out += plain;
    if (!slash) break;
    p = slash + 1;
    // Runs of short escapes and a few plain bytes between them are cheaper byte by byte than by
    // memchr.
    while (true) {
      if (*p == 'u') {
        p = unescape_unicode(p + 1, end, out);
      } else {
        *out++ = simple_escape(*p++);
      }
      for (int i = 0; i < 8 && p < end && *p != '\\'; ++i) *out++ = *p++;
      if (p >= end || *p != '\\') break;
      ++p;
    }
  }
  return out - first;
}

}  // namespace llmd::codec
