#include "redis/address.h"

#include "base/text.h"
#include "fleet/address.h"
#include "http/message.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>

namespace llmd::redis {
namespace {

constexpr std::array<std::string_view, 5> kSchemes = {"redis", "rediss", "valkey", "valkeys",
                                                      "unix"};
constexpr int64_t kDatabaseMax = 65535;
constexpr size_t kSocketPathMax = 107;  // of the system

/// What stands before the first `mark`, which is taken from `text` with it; nothing without one.
std::optional<std::string_view> take_until(std::string_view& text, char mark, bool last = false) {
  const size_t at = last ? text.rfind(mark) : text.find(mark);
  if (at == text.npos) return std::nullopt;
  const auto before = text.substr(0, at);
  text.remove_prefix(at + 1);
  return before;
}

Status read_user(std::string_view text, Address& out) {
  std::string_view password = text;
  const auto user = take_until(password, ':');
  const auto decoded_user = http::percent_decode(user.value_or(text));
  const auto decoded_password = http::percent_decode(user ? password : "");
  if (!decoded_user || !decoded_password)
    return fail(Code::kBadRequest, "the user or the password is not percent-encoded rightly");
  out.user = *decoded_user;
  out.password = *decoded_password;
  return {};
}

Status read_database(std::string_view text, Address& out) {
  const auto number = text.empty() ? 0 : parse_int(text);
  if (!number || *number < 0 || *number > kDatabaseMax)
    return fail(Code::kBadRequest,
                fmt::format("'{}' is no number of a database, 0 to {}", text, kDatabaseMax));
  out.database = *number;
  return {};
}

Status read_unix(std::string_view text, Address& out) {
  const size_t query = std::min(text.find('?'), text.size());
  out.socket_path = text.substr(0, query);
  text.remove_prefix(query);
  if (!out.socket_path.starts_with('/') || out.socket_path.size() > kSocketPathMax)
    return fail(Code::kBadRequest, fmt::format("'{}' is no absolute path of at most {} bytes",
                                               out.socket_path, kSocketPathMax));
  if (text.empty()) return {};
  if (!text.starts_with("?db="))
    return fail(Code::kBadRequest, fmt::format("'{}': only ?db=NUMBER may follow the path", text));
  return read_database(text.substr(4), out);
}

Status read_port(std::string_view text, Address& out) {
  const auto port = fleet::parse_port(text);
  if (!port) return fail(Code::kBadRequest, fmt::format("'{}' is no port, 1 to 65535", text));
  out.port = *port;
  return {};
}

Status read_host(std::string_view text, Address& out) {
  if (text.starts_with('[')) {
    text.remove_prefix(1);
    const auto literal = fleet::canonical_ipv6(take_until(text, ']').value_or(""));
    if (!literal || (!text.empty() && !text.starts_with(':')))
      return fail(Code::kBadRequest, "what stands in brackets is no IPv6 address");
    out.host = *literal;
  } else {
    const size_t end = std::min(text.find(':'), text.size());
    out.host = text.substr(0, end);
    text.remove_prefix(end);
    if (out.host.empty()) out.host = "localhost";
    if (!fleet::is_ipv4(out.host) && !fleet::is_host_name(out.host))
      return fail(Code::kBadRequest, fmt::format("'{}' is no host name or address", out.host));
  }
  return text.empty() ? Status() : read_port(text.substr(1), out);
}

}  // namespace

std::string Address::name() const {
  if (host.empty())
    return fmt::format("unix://{}{}", socket_path,
                       database != 0 ? fmt::format("?db={}", database) : "");
  const bool v6 = host.contains(':');
  return fmt::format("{}://{}{}{}:{}/{}", tls ? "rediss" : "redis", v6 ? "[" : "", host,
                     v6 ? "]" : "", port, database);
}

Result<Address> parse_address(std::string_view text) {
  Address out;
  std::string_view scheme = "redis";
  if (const size_t at = text.find("://"); at != text.npos) {
    scheme = text.substr(0, at);
    text.remove_prefix(at + 3);
  }
  if (std::ranges::find(kSchemes, scheme) == kSchemes.end())
    return fail(Code::kBadRequest,
                fmt::format("'{}' is no scheme of a Redis URL: one of redis, rediss, valkey, "
                            "valkeys, unix{}",
                            scheme, suggestion(scheme, kSchemes)));
  const bool unix_socket = scheme == "unix";
  out.tls = scheme == "rediss" || scheme == "valkeys";
  if (const auto user = take_until(text, '@', true)) LLMD_TRY(read_user(*user, out));
  if (unix_socket) {
    LLMD_TRY(read_unix(text, out));
    return out;
  }
  const size_t path = std::min(text.find('/'), text.size());
  LLMD_TRY(read_host(text.substr(0, path), out));
  if (path < text.size()) LLMD_TRY(read_database(text.substr(path + 1), out));
  return out;
}

}  // namespace llmd::redis
