#include "byte_search.h"

#include <immintrin.h>

namespace llmd::codec {
namespace {

const char* find_sse2(const char* p, const char* end) {
  for (; end - p >= 16; p += 16)
    if (const uint32_t mask = string_special_mask(p)) return p + std::countr_zero(mask);
  while (p < end && !is_string_special(*p)) ++p;
  return p;
}

__attribute__((target("avx2"))) inline __m256i special_avx2(const char* p) {
  const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  const __m256i quote = _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8('"'));
  const __m256i slash = _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8('\\'));
  const __m256i control = _mm256_cmpeq_epi8(_mm256_min_epu8(bytes, _mm256_set1_epi8(0x1f)), bytes);
  return _mm256_or_si256(_mm256_or_si256(quote, slash), control);
}

__attribute__((target("avx2"))) const char* find_avx2(const char* p, const char* end) {
  for (; end - p >= 64; p += 64) {
    const __m256i low = special_avx2(p);
    const __m256i high = special_avx2(p + 32);
    if (_mm256_testz_si256(_mm256_or_si256(low, high), _mm256_or_si256(low, high))) continue;
    const uint64_t mask = static_cast<uint32_t>(_mm256_movemask_epi8(low)) |
                          static_cast<uint64_t>(static_cast<uint32_t>(_mm256_movemask_epi8(high)))
                              << 32;
    return p + std::countr_zero(mask);
  }
  return find_sse2(p, end);
}

using Find = const char* (*)(const char*, const char*);
const Find kFind = __builtin_cpu_supports("avx2") ? find_avx2 : find_sse2;

}  // namespace

const char* find_in_string_long(const char* p, const char* end) {
  return kFind(p, end);
}

}  // namespace llmd::codec
