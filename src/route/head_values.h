#pragma once

#include "base/headers.h"

#include <algorithm>
#include <string_view>

namespace llmd::route {

/// The target without its query.
inline std::string_view path_of(std::string_view target) {
  return target.substr(0, target.find('?'));
}

/// The value of the newer of two header names; a present but empty new name hides the old one.
inline std::string_view either(HeaderView headers, std::string_view name,
                               std::string_view old_name) {
  const auto value = headers.find(name);
  return value ? *value : headers.get(old_name);
}

/// What is kept as a request's id; anything else is replaced by one of ours.
inline constexpr size_t kRequestIdBytesMax = 128;

inline bool is_request_id(std::string_view text) {
  return !text.empty() && text.size() <= kRequestIdBytesMax &&
         std::ranges::all_of(text, [](unsigned char c) { return c > ' ' && c < 0x7f; });
}

}  // namespace llmd::route
