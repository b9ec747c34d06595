#pragma once

#include "base/result.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// Checks on the parts of an endpoint's address, shared by all ways of discovery.
namespace llmd::fleet {

bool is_ipv4(std::string_view text);
/// The canonical spelling of an IPv6 literal without brackets or zone, or nothing.
std::optional<std::string> canonical_ipv6(std::string_view text);

/// Letters, digits, '-' and '_' in labels of 1 to 63 characters, 253 in all. A name whose last
/// label is a number is none: it is a misspelled IPv4 literal.
bool is_host_name(std::string_view text);

/// 1 to 65535; a leading '+' and leading zeros are allowed.
std::optional<uint16_t> parse_port(std::string_view text);

/// The addresses of a host name as literals, the preferred first. May block: not for loops.
using Resolver = std::function<Result<std::vector<std::string>>(const std::string& host)>;

/// Asks the operating system; IPv4 before IPv6, otherwise in its order.
Resolver system_resolver();

}  // namespace llmd::fleet
