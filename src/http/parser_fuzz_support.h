#pragma once

#include "parser.h"

#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

/// Properties that hold for any bytes, shared by the fuzz targets of both sides.
namespace llmd::http::fuzzing {

inline void require(bool property) {
  if (!property) std::abort();
}

/// The head's length, found the same way in one piece and byte by byte.
inline size_t scan(std::string_view bytes) {
  HeadScanner whole;
  const size_t length = whole.scan(bytes);
  HeadScanner stepwise;
  size_t found = HeadScanner::kMore;
  for (size_t n = 1; n <= bytes.size() && found == HeadScanner::kMore; ++n)
    found = stepwise.scan(bytes.substr(0, n));
  require(found == length);
  return length;
}

/// The header lines as the parser reads them: no byte of them may end a line or a head elsewhere.
inline std::string lines_of(HeaderView headers) {
  std::string lines;
  for (const auto& [name, value] : headers) {
    require(!name.empty());
    require(name.find_first_of(std::string_view(" \t\r\n:\0", 6)) == name.npos);
    require(value.find_first_of(std::string_view("\r\n\0", 3)) == value.npos);
    lines.append(name).append(": ").append(value).append("\r\n");
  }
  return lines + "\r\n";
}

/// Decodes in one piece and byte by byte, with the same result.
inline void decode(std::string_view bytes) {
  std::string copy(bytes);
  ChunkDecoder whole;
  const auto result = whole.decode(copy.data(), copy.size());
  require(result.consumed <= bytes.size());
  ChunkDecoder stepwise;
  std::string data;
  auto status = ChunkDecoder::Status::kMore;
  size_t consumed = 0;
  while (consumed < bytes.size() && status == ChunkDecoder::Status::kMore) {
    char byte = bytes[consumed++];
    const auto step = stepwise.decode(&byte, 1);
    data += step.data;
    status = step.status;
  }
  require(status == result.status && consumed == result.consumed && data == result.data);
}

}  // namespace llmd::http::fuzzing
