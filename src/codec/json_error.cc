#include "codec/json_scan.h"

#include <cstdio>

namespace llmd::codec {
namespace {

/// The byte in single quotes as Go prints it: read as Latin-1.
std::string quoted(unsigned char c) {
  char text[16];
  if (c == '\'' || c == '\\') {
    std::snprintf(text, sizeof text, "'\\%c'", c);
  } else if (c >= 0x20 && c < 0x7f) {
    std::snprintf(text, sizeof text, "'%c'", c);
  } else if (c >= 7 && c <= 13) {
    std::snprintf(text, sizeof text, "'\\%c'", "abtnvfr"[c - 7]);
  } else if (c < 0x80) {
    std::snprintf(text, sizeof text, "'\\x%02x'", c);
  } else if (c <= 0xa0 || c == 0xad) {
    std::snprintf(text, sizeof text, "'\\u%04x'", c);
  } else {
    std::snprintf(text, sizeof text, "'%c%c'", 0xc0 | c >> 6, 0x80 | (c & 0x3f));
  }
  return text;
}

const char* place(JsonError::Kind kind) {
  switch (kind) {
    case JsonError::Kind::kKey:
      return "looking for beginning of object key string";
    case JsonError::Kind::kColon:
      return "after object key";
    case JsonError::Kind::kAfterMember:
      return "after object key:value pair";
    case JsonError::Kind::kAfterElement:
      return "after array element";
    case JsonError::Kind::kAfterDocument:
      return "after top-level value";
    case JsonError::Kind::kControl:
      return "in string literal";
    case JsonError::Kind::kEscape:
      return "in string escape code";
    case JsonError::Kind::kHex:
      return "in \\u hexadecimal character escape";
    case JsonError::Kind::kNumber:
      return "in numeric literal";
    case JsonError::Kind::kFraction:
      return "after decimal point in numeric literal";
    case JsonError::Kind::kExponent:
      return "in exponent of numeric literal";
    default:
      return "looking for beginning of value";
  }
}

}  // namespace

std::string JsonError::text() const {
  if (kind == Kind::kNone) return {};
  if (kind == Kind::kEnd) return "unexpected end of JSON input";
  if (kind == Kind::kDepth) return "exceeded max depth";
  std::string text = "invalid character " + quoted(byte) + " ";
  if (kind == Kind::kLiteral)
    return text + "in literal " + literal + " (expecting '" + literal[literal_at] + "')";
  return text + place(kind);
}

}  // namespace llmd::codec
