#pragma once

#include <bit>
#include <cstdint>
#include <emmintrin.h>

namespace llmd::codec {

/// The first quote, backslash or control character in [p, end), or `end`; for long runs. Chosen
/// once by what the processor has.
const char* find_in_string_long(const char* p, const char* end);

/// Bit i is set when byte i of the 16 at `p` ends a run of plain string bytes.
inline uint32_t string_special_mask(const char* p) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  const __m128i quote = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('"'));
  const __m128i slash = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\'));
  const __m128i control = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1f)), bytes);
  return static_cast<uint32_t>(
      _mm_movemask_epi8(_mm_or_si128(_mm_or_si128(quote, slash), control)));
}

inline bool is_string_special(char c) {
  return c == '"' || c == '\\' || static_cast<unsigned char>(c) < 0x20;
}

/// The same for any length; short strings stay inline.
inline const char* find_in_string(const char* p, const char* end) {
  for (int i = 0; i < 4; ++i) {
    if (end - p < 16) {
      while (p < end && !is_string_special(*p)) ++p;
      return p;
    }
    if (const uint32_t mask = string_special_mask(p)) return p + std::countr_zero(mask);
    p += 16;
  }
  return find_in_string_long(p, end);
}

}  // namespace llmd::codec
