#include "base/base64.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace llmd {
namespace {

constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr char kPad = '=';

constexpr std::array<int8_t, 256> kValues = [] {
  std::array<int8_t, 256> values;
  values.fill(-1);
  for (size_t i = 0; i < kDigits.size(); ++i)
    values[static_cast<unsigned char>(kDigits[i])] = static_cast<int8_t>(i);
  return values;
}();

}  // namespace

std::string_view base64_encode(std::string_view bytes, Arena& arena) {
  const auto text = arena.array<char>((bytes.size() + 2) / 3 * 4);
  for (size_t in = 0, out = 0; in < bytes.size(); in += 3, out += 4) {
    const size_t n = std::min<size_t>(3, bytes.size() - in);
    uint32_t bits = 0;
    for (size_t i = 0; i < 3; ++i)
      bits = bits << 8 | (i < n ? static_cast<unsigned char>(bytes[in + i]) : 0);
    for (size_t i = 0; i < 4; ++i)
      text[out + i] = i <= n ? kDigits[bits >> (18 - 6 * i) & 63] : kPad;
  }
  return {text.data(), text.size()};
}

std::optional<std::string_view> base64_decode(std::string_view text, Arena& arena) {
  if (text.size() % 4 != 0) return std::nullopt;
  size_t pads = 0;
  while (pads < 2 && text.size() > pads && text[text.size() - 1 - pads] == kPad) ++pads;
  const auto bytes = arena.array<char>(text.size() / 4 * 3);
  for (size_t in = 0, out = 0; in < text.size(); in += 4) {
    const size_t missing = in + 4 == text.size() ? pads : 0;
    uint32_t bits = 0;
    for (size_t i = 0; i < 4; ++i) {
      const int value = i < 4 - missing ? kValues[static_cast<unsigned char>(text[in + i])] : 0;
      if (value < 0) return std::nullopt;
      bits = bits << 6 | static_cast<uint32_t>(value);
    }
    if ((bits & ((1u << 8 * missing) - 1)) != 0) return std::nullopt;
    for (size_t i = 0; i < 3; ++i) bytes[out++] = static_cast<char>(bits >> (16 - 8 * i) & 0xff);
  }
  return std::string_view(bytes.data(), bytes.size() - pads);
}

}  // namespace llmd
