#pragma once

#include <cstddef>
#include <string_view>

namespace llmd::codec {

/// Unescapes `text`, the inside of a valid JSON string literal, into `out` (room for text.size()
/// bytes; the result is never longer). Lone surrogates become U+FFFD. Returns the number of bytes
/// written.
size_t unescape_json(std::string_view text, char* out);

}  // namespace llmd::codec
