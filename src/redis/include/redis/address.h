#pragma once

#include "base/result.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace llmd::redis {

/// A server of Redis or Valkey, and what is said to it first.
struct Address {
  std::string host;  // a name, or a literal without brackets; "": a unix socket
  uint16_t port = 6379;
  std::string socket_path;  // of a unix socket
  bool tls = false;
  std::string user, password;  // "": not given. The password is a secret
  int64_t database = 0;

  /// As a URL without what is secret.
  std::string name() const;
  bool operator==(const Address&) const = default;
};

/// redis://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE], rediss:// for TLS, valkey:// and valkeys://
/// for the same, unix://[USER[:PASSWORD]@]/PATH[?db=DATABASE]; what has no scheme is redis://.
/// Names and passwords may be percent-encoded. Errors never repeat the password.
Result<Address> parse_address(std::string_view text);

}  // namespace llmd::redis
