#pragma once

#include "base/headers.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// HTTP/1.1 messages as this process reads them. All views point into the buffer that holds the
/// head.
namespace llmd::http {

/// How the end of a body is found.
enum class Framing : uint8_t {
  kNone,        // there is no body
  kLength,      // content_length bytes
  kChunked,     // Transfer-Encoding: chunked
  kUntilClose,  // responses only: up to the end of the connection
};

struct RequestHead {
  std::string_view method;  // as sent; methods are case-sensitive
  std::string_view target;  // path with query; an absolute URL is cut down to that
  HeaderView headers;       // in wire order; values without surrounding blanks
  uint8_t minor_version = 1;
  bool http2 = false;
  Framing framing = Framing::kNone;  // of HTTP/2: kNone, kLength, or kChunked without a length
  uint64_t content_length = 0;       // with kLength
  bool keep_alive = true;            // what the client asks for
  bool expects_continue = false;

  /// The target up to the query.
  std::string_view path() const { return target.substr(0, target.find('?')); }
  /// What follows the question mark; "" without one.
  std::string_view query() const {
    const auto at = target.find('?');
    return at == target.npos ? std::string_view{} : target.substr(at + 1);
  }
};

struct ResponseHead {
  int status = 0;
  std::string_view reason;
  HeaderView headers;
  uint8_t minor_version = 1;
  Framing framing = Framing::kNone;
  uint64_t content_length = 0;  // as declared, also where no body follows (HEAD, 304)
  bool has_content_length = false;
  bool keep_alive = true;
};

/// The standard phrase of a status, "Unknown" for one without.
std::string_view reason_phrase(int status);

/// The raw (still percent-encoded) value of `name` in `query`; "" when absent.
std::string_view query_parameter(std::string_view query, std::string_view name);

/// "%41" → "A". Nothing when a percent sign is not followed by two hexadecimal digits.
std::optional<std::string> percent_decode(std::string_view text);

/// A header that belongs to one connection rather than to the message (RFC 9110 §7.6.1):
/// Connection, Keep-Alive, Proxy-Connection, TE, Trailer, Transfer-Encoding, Upgrade,
/// HTTP2-Settings, and Proxy-Authenticate / Proxy-Authorization.
bool is_hop_by_hop(std::string_view name);

}  // namespace llmd::http
