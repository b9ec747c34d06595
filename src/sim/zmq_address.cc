#include "zmq_address.h"

#include "base/text.h"

#include <fmt/format.h>

namespace llmd::sim {

std::string ZmqAddress::text() const {
  return fmt::format("tcp://{}:{}", host, port);
}

Result<ZmqAddress> parse_zmq_address(std::string_view text) {
  constexpr std::string_view kTcp = "tcp://";
  if (text.empty()) return ZmqAddress{};
  const size_t colon = text.rfind(':');
  if (text.starts_with(kTcp) && colon > kTcp.size()) {
    const std::string_view port = text.substr(colon + 1);
    const auto number = port == "*" ? std::optional<int64_t>(0) : parse_int(port);
    if (number && *number >= 0 && *number <= 65535)
      return ZmqAddress{std::string(text.substr(kTcp.size(), colon - kTcp.size())),
                        static_cast<uint16_t>(*number)};
  }
  return fail(Code::kBadRequest, fmt::format("'{}' is not tcp://HOST:PORT", text));
}

}  // namespace llmd::sim
