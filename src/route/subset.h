#pragma once

#include "fleet/endpoint.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string_view>

namespace llmd::route {

/// The proxy's hint of which endpoints a request may go to, as "ip:port" of which only the ip
/// counts. Without a list all may be used; with an empty one none. Views are the front end's.
struct Subset {
  std::optional<std::span<const std::string_view>> addresses;

  bool includes(const fleet::Endpoint& endpoint) const {
    return !addresses || std::ranges::any_of(*addresses, [&](auto item) {
      auto ip = item.substr(0, item.rfind(':'));
      if (ip.starts_with('[') && ip.ends_with(']')) ip = ip.substr(1, ip.size() - 2);
      return ip == endpoint.spec().address;
    });
  }
};

}  // namespace llmd::route
