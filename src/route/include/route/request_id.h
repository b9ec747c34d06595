#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace llmd::route {

/// What is kept as a request's id; anything else is replaced by one of ours.
inline constexpr size_t kRequestIdBytesMax = 128;

inline bool is_request_id(std::string_view text) {
  return !text.empty() && text.size() <= kRequestIdBytesMax &&
         std::ranges::all_of(text, [](unsigned char c) { return c > ' ' && c < 0x7f; });
}

}  // namespace llmd::route
