#include "codec/json_text.h"

#include <bit>
#include <cstdint>
#include <emmintrin.h>

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
  const auto escape = [&] {  // p is behind a backslash
    if (*p == 'u')
      p = unescape_unicode(p + 1, end, out);
    else
      *out++ = simple_escape(*p++);
  };
  // Copies 16 bytes whatever they are and advances to the first backslash among them. `out` is
  // never ahead of `p` in its buffer, so there is room.
  constexpr int kStep = 16;
  const __m128i backslash = _mm_set1_epi8('\\');
  while (end - p >= kStep) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out), bytes);
    const auto mask = static_cast<uint32_t>(_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, backslash)));
    const int plain = mask == 0 ? kStep : std::countr_zero(mask);
    p += plain;
    out += plain;
    if (mask == 0) continue;
    ++p;
    escape();
  }
  while (p < end) {
    if (*p != '\\') {
      *out++ = *p++;
      continue;
    }
    ++p;
    escape();
  }
  return out - first;
}

}  // namespace llmd::codec
