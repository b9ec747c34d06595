#pragma once

#include "http/message.h"

#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <string_view>
#include <vector>

/// Strict HTTP/1.1 reading. What two parsers could understand differently is refused, so that
/// nothing can be smuggled past this process (or to it): any Transfer-Encoding but one `chunked`,
/// Transfer-Encoding together with Content-Length or in HTTP/1.0, a Content-Length that is
/// repeated, a list or not plain digits, folded lines, blanks before a colon, bare CR or LF,
/// control characters, no or more than one Host, a Host other than that of an absolute target, a
/// target with a fragment, upgrades but for an offer of h2c, other spacing in the first line, chunk
/// sizes that are not 1 to 15 hex digits.
namespace llmd::http {

/// Why a message is refused, and the status that tells a client so.
struct ParseFault {
  int status = 400;
  std::string_view what;
};

/// Finds the end of a head in bytes that arrive bit by bit; looks at each byte once.
class HeadScanner {
 public:
  static constexpr size_t kMore = 0;
  static constexpr size_t kBad = SIZE_MAX;

  /// `bytes`: everything from the head's first byte. Returns the head's length with its blank line,
  /// kMore, or kBad at a line end without CR.
  size_t scan(std::string_view bytes);
  void reset() { *this = {}; }

 private:
  size_t next_ = 0;  // first byte not yet looked at
  size_t line_begin_ = 0;
};

/// Reads `head` (blank line included, as HeadScanner found it). `fields` backs the result's
/// headers.
std::expected<RequestHead, ParseFault> parse_request_head(std::string_view head, size_t headers_max,
                                                          std::vector<HeaderField>& fields);

/// Whether what a request of HTTP/2 says of itself could stand in an HTTP/1.1 head: nothing, or why
/// not. `target` is a path with query, or "*".
std::optional<ParseFault> check_request(std::string_view method, std::string_view target,
                                        std::string_view host);

/// `answers_head`: the request's method was HEAD, so no body follows.
std::expected<ResponseHead, ParseFault> parse_response_head(std::string_view head,
                                                            bool answers_head, size_t headers_max,
                                                            std::vector<HeaderField>& fields);

/// Takes the framing off a chunked body, in place. Extensions and trailers are checked for form and
/// size and dropped.
class ChunkDecoder {
 public:
  enum class Status : uint8_t { kMore, kDone, kBad };
  struct Result {
    Status status;
    std::string_view data;  // the payload, contiguous, inside the given bytes
    size_t consumed;        // with kDone: what follows belongs to the next message
  };

  /// Decodes the next `size` bytes. Cost: payload is moved only when more than one chunk is in
  /// `bytes`.
  Result decode(char* bytes, size_t size);
  void reset() { *this = {}; }

 private:
  enum class State : uint8_t {
    kSizeFirst,
    kSize,
    kExtension,
    kSizeLf,
    kPayload,
    kPayloadCr,
    kPayloadLf,
    kTrailerFirst,
    kTrailer,
    kTrailerLf,
    kEndLf,
  };
  bool step(char c);

  State state_ = State::kSizeFirst;
  uint8_t digits_ = 0;
  uint32_t line_bytes_ = 0;  // of an extension, or of all trailers
  uint64_t left_ = 0;        // of the size being read, then of the payload
};

}  // namespace llmd::http
