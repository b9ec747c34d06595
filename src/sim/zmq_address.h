#pragma once

#include "base/result.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace llmd::sim {

/// tcp://HOST:PORT in its parts.
struct ZmqAddress {
  std::string host;   // "*": every interface
  uint16_t port = 0;  // 0: chosen by the system

  /// What the engine listens on rather than connects to.
  bool any_host() const { return host.contains('*') || host.contains("::"); }
  std::string text() const;
};

/// Errors name the value. "" is an address without a host.
Result<ZmqAddress> parse_zmq_address(std::string_view text);

}  // namespace llmd::sim
