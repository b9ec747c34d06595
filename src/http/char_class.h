#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

/// Classes of bytes in HTTP heads (RFC 9110 §5).
namespace llmd::http {

inline constexpr uint8_t kTokenChar = 1;   // names and methods
inline constexpr uint8_t kValueChar = 2;   // visible, blank, tab, and bytes above 127
inline constexpr uint8_t kTargetChar = 4;  // visible ASCII but the fragment's mark
inline constexpr uint8_t kHostChar = 8;    // of a host with port

inline constexpr std::array<uint8_t, 256> kCharClass = [] {
  std::array<uint8_t, 256> table{};
  for (unsigned c = 0; c < 256; ++c) {
    if ((c >= 0x20 && c != 0x7f) || c == '\t') table[c] |= kValueChar;
    if (c > 0x20 && c < 0x7f && c != '#') table[c] |= kTargetChar;
    const bool alnum = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z' && c < 128);
    if (alnum) table[c] |= kTokenChar | kHostChar;
  }
  for (const char c : std::string_view("!#$%&'*+-.^_`|~"))
    table[static_cast<uint8_t>(c)] |= kTokenChar;
  for (const char c : std::string_view("!$%&'()*+-.:;=[]_~"))
    table[static_cast<uint8_t>(c)] |= kHostChar;
  return table;
}();

inline bool all_of_class(std::string_view text, uint8_t char_class) {
  uint8_t common = char_class;
  for (const char c : text) common &= kCharClass[static_cast<uint8_t>(c)];
  return common == char_class;
}

/// all_of_class(text, kValueChar), eight bytes at a time where none of them is a control character.
inline bool is_field_value(std::string_view text) {
  constexpr uint64_t kEach = 0x0101010101010101;
  while (text.size() >= sizeof(uint64_t)) {
    uint64_t w;
    std::memcpy(&w, text.data(), sizeof w);
    if (((w - kEach * 0x20) | ((w ^ kEach * 0x7f) - kEach)) & ~w & kEach * 0x80) break;
    text.remove_prefix(sizeof w);
  }
  return all_of_class(text, kValueChar);
}

}  // namespace llmd::http
