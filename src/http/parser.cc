#include "parser.h"

#include "char_class.h"

#include "base/text.h"

#include <algorithm>
#include <cstring>

namespace llmd::http {

namespace {

constexpr uint32_t kExtensionBytesMax = 1024;
constexpr uint32_t kTrailerBytesMax = 16 * 1024;

std::unexpected<ParseFault> bad(std::string_view what, int status = 400) {
  return std::unexpected(ParseFault{status, what});
}

std::string_view trim_blanks(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

bool parse_digits(std::string_view text, uint64_t& value) {
  if (text.empty() || text.size() > 18) return false;
  value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return false;
    value = value * 10 + static_cast<uint64_t>(c - '0');
  }
  return true;
}

/// "HTTP/1.0" or "HTTP/1.1"; anything else that looks like HTTP is a version we do not speak.
std::expected<uint8_t, ParseFault> parse_version(std::string_view text) {
  if (text == "HTTP/1.1") return uint8_t{1};
  if (text == "HTTP/1.0") return uint8_t{0};
  if (text.size() == 8 && text.starts_with("HTTP/")) return bad("version not supported", 505);
  return bad("malformed version");
}

/// What the framing headers of a head said, requests and responses alike.
struct Common {
  bool chunked = false;
  bool has_length = false;
  uint64_t length = 0;
  bool close = false;
  bool keep_alive = false;
  bool upgrade = false;
  size_t hosts = 0;
  std::string_view expect;
};

void read_connection(std::string_view value, Common& common) {
  while (!value.empty()) {
    const size_t comma = std::min(value.find(','), value.size());
    const auto token = trim_blanks(value.substr(0, comma));
    if (equals_ignore_case(token, "close")) common.close = true;
    if (equals_ignore_case(token, "keep-alive")) common.keep_alive = true;
    value.remove_prefix(std::min(comma + 1, value.size()));
  }
}

/// Notes `field` when it says something about framing or the connection; returns a fault or "".
std::string_view read_special(const HeaderField& field, Common& common) {
  const auto is = [&](std::string_view name) { return equals_ignore_case(field.name, name); };
  switch (field.name.size()) {
    case 4:
      if (!is("host")) break;
      if (++common.hosts > 1) return "more than one Host";
      if (!all_of_class(field.value, kHostChar)) return "malformed Host";
      break;
    case 6:
      if (is("expect")) common.expect = field.value;
      break;
    case 7:
      // An offer of h2c, which some clients make with every first request, needs no answer.
      if (is("upgrade") && !equals_ignore_case(field.value, "h2c")) common.upgrade = true;
      break;
    case 10:
      if (is("connection")) read_connection(field.value, common);
      break;
    case 14:
      if (!is("content-length")) break;
      if (common.has_length) return "repeated Content-Length";
      if (!parse_digits(field.value, common.length)) return "malformed Content-Length";
      common.has_length = true;
      break;
    case 17:
      if (!is("transfer-encoding")) break;
      if (common.chunked) return "repeated Transfer-Encoding";
      if (!equals_ignore_case(field.value, "chunked")) return "unsupported Transfer-Encoding";
      common.chunked = true;
      break;
    default:
      break;
  }
  return {};
}

/// Reads the header lines in `lines`, which ends with the blank line.
std::expected<Common, ParseFault> parse_fields(std::string_view lines, size_t headers_max,
                                               std::vector<HeaderField>& fields) {
  Common common;
  fields.clear();
  while (lines.size() > 2) {
    const size_t end = lines.find('\n');
    const auto line = lines.substr(0, end - 1);
    lines.remove_prefix(end + 1);
    if (fields.size() == headers_max) return bad("too many header lines", 431);
    size_t colon = 0;
    while (colon < line.size() && (kCharClass[static_cast<uint8_t>(line[colon])] & kTokenChar))
      ++colon;
    if (colon == 0 || colon == line.size() || line[colon] != ':')
      return bad("malformed header name");
    const HeaderField field{line.substr(0, colon), trim_blanks(line.substr(colon + 1))};
    if (!is_field_value(field.value)) return bad("malformed header value");
    if (const auto what = read_special(field, common); !what.empty()) return bad(what);
    fields.push_back(field);
  }
  if (common.chunked && common.has_length) return bad("both Transfer-Encoding and Content-Length");
  return common;
}

/// What a request target says. `path` (with query) is "" when it has none of the forms we serve.
struct Target {
  std::string_view path;
  std::string_view authority;  // of an absolute URL
};

Target read_target(std::string_view target) {
  if (target.starts_with('/') || target == "*") return {target, {}};
  const size_t scheme = target.find("://");
  if (scheme != 4 && scheme != 5) return {};
  if (!equals_ignore_case(target.substr(0, scheme), scheme == 4 ? "http" : "https")) return {};
  const auto rest = target.substr(scheme + 3);
  const size_t path = std::min(rest.find_first_of("/?"), rest.size());
  const auto authority = rest.substr(0, path);
  if (path == rest.size()) return {"/", authority};
  return rest[path] == '/' ? Target{rest.substr(path), authority} : Target{};
}

}  // namespace

size_t HeadScanner::scan(std::string_view bytes) {
  while (next_ < bytes.size()) {
    const void* found = std::memchr(bytes.data() + next_, '\n', bytes.size() - next_);
    if (!found) {
      next_ = bytes.size();
      return kMore;
    }
    const auto at = static_cast<size_t>(static_cast<const char*>(found) - bytes.data());
    if (at == line_begin_ || bytes[at - 1] != '\r') return kBad;
    next_ = at + 1;
    if (at - 1 == line_begin_) return at + 1;
    line_begin_ = at + 1;
  }
  return kMore;
}

std::expected<RequestHead, ParseFault> parse_request_head(std::string_view head, size_t headers_max,
                                                          std::vector<HeaderField>& fields) {
  const size_t line_end = head.find('\n');
  const auto line = head.substr(0, line_end - 1);
  const size_t first = line.find(' ');
  const size_t last = line.rfind(' ');
  if (first == line.npos || first == last) return bad("malformed request line");
  RequestHead request;
  request.method = line.substr(0, first);
  const auto target = line.substr(first + 1, last - first - 1);
  if (request.method.empty() || !all_of_class(request.method, kTokenChar))
    return bad("malformed method");
  if (target.empty() || !all_of_class(target, kTargetChar)) return bad("malformed request target");
  auto version = parse_version(line.substr(last + 1));
  if (!version) return std::unexpected(version.error());
  request.minor_version = *version;
  if (request.method == "CONNECT") return bad("CONNECT is not supported", 501);
  const auto [path, authority] = read_target(target);
  request.target = path;
  if (path.empty() || (path == "*" && request.method != "OPTIONS"))
    return bad("malformed request target");

  auto common = parse_fields(head.substr(line_end + 1), headers_max, fields);
  if (!common) return std::unexpected(common.error());
  request.headers = std::span<const HeaderField>(fields);
  if (common->upgrade) return bad("upgrades are not supported", 501);
  if (common->hosts == 0 && *version == 1) return bad("no Host");
  if (common->hosts == 1 && path.data() != target.data() &&
      !equals_ignore_case(request.headers.get("host"), authority))
    return bad("Host differs from the request target");
  if (common->chunked && *version == 0) return bad("Transfer-Encoding in HTTP/1.0");
  if (common->chunked) {
    request.framing = Framing::kChunked;
  } else if (common->length > 0) {
    request.framing = Framing::kLength;
    request.content_length = common->length;
  }
  if (!common->expect.empty()) {
    if (!equals_ignore_case(common->expect, "100-continue")) return bad("unknown expectation", 417);
    request.expects_continue = *version == 1;
  }
  request.keep_alive = !common->close && (*version == 1 || common->keep_alive);
  return request;
}

std::optional<ParseFault> check_request(std::string_view method, std::string_view target,
                                        std::string_view host) {
  if (method.empty() || !all_of_class(method, kTokenChar))
    return ParseFault{400, "malformed method"};
  if (method == "CONNECT") return ParseFault{501, "CONNECT is not supported"};
  const bool formed = target.starts_with('/') || (target == "*" && method == "OPTIONS");
  if (!formed || !all_of_class(target, kTargetChar))
    return ParseFault{400, "malformed request target"};
  if (!all_of_class(host, kHostChar)) return ParseFault{400, "malformed Host"};
  return std::nullopt;
}

std::expected<ResponseHead, ParseFault> parse_response_head(std::string_view head,
                                                            bool answers_head, size_t headers_max,
                                                            std::vector<HeaderField>& fields) {
  const size_t line_end = head.find('\n');
  const auto line = head.substr(0, line_end - 1);
  if (line.size() < 12 || line[8] != ' ') return bad("malformed status line");
  auto version = parse_version(line.substr(0, 8));
  if (!version) return std::unexpected(version.error());
  uint64_t status = 0;
  if (!parse_digits(line.substr(9, 3), status) || status < 100) return bad("malformed status");
  if (line.size() > 12 && line[12] != ' ') return bad("malformed status line");
  ResponseHead response;
  response.status = static_cast<int>(status);
  response.reason = line.size() > 13 ? line.substr(13) : std::string_view{};
  if (!is_field_value(response.reason)) return bad("malformed reason");
  response.minor_version = *version;

  auto common = parse_fields(head.substr(line_end + 1), headers_max, fields);
  if (!common) return std::unexpected(common.error());
  response.headers = std::span<const HeaderField>(fields);
  if (common->chunked && *version == 0) return bad("Transfer-Encoding in HTTP/1.0");
  response.keep_alive = !common->close && (*version == 1 || common->keep_alive);
  response.has_content_length = common->has_length;
  response.content_length = common->length;
  if (answers_head || status < 200 || status == 204 || status == 304) {
    response.framing = Framing::kNone;
  } else if (common->chunked) {
    response.framing = Framing::kChunked;
  } else if (common->has_length) {
    response.framing = common->length > 0 ? Framing::kLength : Framing::kNone;
  } else {
    response.framing = Framing::kUntilClose;
    response.keep_alive = false;
  }
  return response;
}

/// One byte outside of payloads. False: the framing is broken.
bool ChunkDecoder::step(char c) {
  switch (state_) {
    case State::kSizeFirst:
    case State::kSize: {
      const char lower = static_cast<char>(c | 32);
      const int digit = c >= '0' && c <= '9'           ? c - '0'
                        : lower >= 'a' && lower <= 'f' ? lower - 'a' + 10
                                                       : -1;
      if (digit >= 0) {
        state_ = State::kSize;
        left_ = left_ << 4 | static_cast<uint64_t>(digit);
        return ++digits_ <= 15;
      }
      if (state_ == State::kSizeFirst) return false;
      line_bytes_ = 0;
      if (c == '\r')
        state_ = State::kSizeLf;
      else if (c == ';')
        state_ = State::kExtension;
      else
        return false;
      return true;
    }
    case State::kExtension:
      if (c == '\r') {
        state_ = State::kSizeLf;
        return true;
      }
      return ++line_bytes_ <= kExtensionBytesMax &&
             (kCharClass[static_cast<uint8_t>(c)] & kValueChar);
    case State::kSizeLf:
      state_ = left_ > 0 ? State::kPayload : State::kTrailerFirst;
      digits_ = 0;
      line_bytes_ = 0;
      return c == '\n';
    case State::kPayloadCr:
      state_ = State::kPayloadLf;
      return c == '\r';
    case State::kPayloadLf:
      state_ = State::kSizeFirst;
      return c == '\n';
    case State::kTrailerFirst:
      if (c == '\r') {
        state_ = State::kEndLf;
        return true;
      }
      state_ = State::kTrailer;
      return ++line_bytes_ <= kTrailerBytesMax &&
             (kCharClass[static_cast<uint8_t>(c)] & kTokenChar);
    case State::kTrailer:
      if (c == '\r') {
        state_ = State::kTrailerLf;
        return true;
      }
      return ++line_bytes_ <= kTrailerBytesMax &&
             (kCharClass[static_cast<uint8_t>(c)] & kValueChar);
    case State::kTrailerLf:
      state_ = State::kTrailerFirst;
      return c == '\n';
    case State::kPayload:
    case State::kEndLf:
      break;
  }
  return false;
}

ChunkDecoder::Result ChunkDecoder::decode(char* bytes, size_t size) {
  char* out = bytes;
  size_t out_size = 0;
  size_t at = 0;
  while (at < size) {
    if (state_ == State::kPayload) {
      const size_t n = std::min<uint64_t>(left_, size - at);
      if (out_size == 0)
        out = bytes + at;
      else
        std::memmove(out + out_size, bytes + at, n);
      out_size += n;
      at += n;
      left_ -= n;
      if (left_ == 0) state_ = State::kPayloadCr;
    } else if (state_ == State::kEndLf) {
      const bool good = bytes[at] == '\n';
      return {good ? Status::kDone : Status::kBad, {out, out_size}, at + 1};
    } else if (!step(bytes[at++])) {
      return {Status::kBad, {out, out_size}, at};
    }
  }
  return {Status::kMore, {out, out_size}, size};
}

}  // namespace llmd::http
