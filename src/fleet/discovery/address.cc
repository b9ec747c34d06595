#include "fleet/address.h"

#include "base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <arpa/inet.h>
#include <memory>
#include <netdb.h>
#include <sys/socket.h>

namespace llmd::fleet {
namespace {

constexpr bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
constexpr bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool is_host_label(std::string_view label) {
  constexpr size_t kLabelMax = 63;
  return !label.empty() && label.size() <= kLabelMax && label.front() != '-' &&
         label.back() != '-' && std::ranges::all_of(label, [](char c) {
           return is_letter(c) || is_digit(c) || c == '-' || c == '_';
         });
}

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};

}  // namespace

bool is_ipv4(std::string_view text) {
  in_addr address{};
  return ::inet_pton(AF_INET, std::string(text).c_str(), &address) == 1 &&
         text.find('\0') == text.npos;
}

std::optional<std::string> canonical_ipv6(std::string_view text) {
  in6_addr address{};
  if (text.find('\0') != text.npos ||
      ::inet_pton(AF_INET6, std::string(text).c_str(), &address) != 1)
    return std::nullopt;
  char canonical[INET6_ADDRSTRLEN];
  return ::inet_ntop(AF_INET6, &address, canonical, sizeof canonical);
}

bool is_host_name(std::string_view text) {
  constexpr size_t kNameMax = 253;
  if (text.empty() || text.size() > kNameMax) return false;
  std::string_view label;
  for (size_t at = 0; at <= text.size();) {
    const size_t dot = std::min(text.find('.', at), text.size());
    label = text.substr(at, dot - at);
    if (!is_host_label(label)) return false;
    at = dot + 1;
  }
  return !std::ranges::all_of(label, is_digit);
}

std::optional<uint16_t> parse_port(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  if (text.empty() || !std::ranges::all_of(text, is_digit)) return std::nullopt;
  const auto number = parse_int(text);
  if (!number || *number < 1 || *number > 65535) return std::nullopt;
  return static_cast<uint16_t>(*number);
}

Resolver system_resolver() {
  return [](const std::string& host) -> Result<std::vector<std::string>> {
    const addrinfo hints{.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    addrinfo* list = nullptr;
    if (const int error = ::getaddrinfo(host.c_str(), nullptr, &hints, &list); error != 0)
      return fail(Code::kServiceUnavailable,
                  fmt::format("host '{}': {}", host, ::gai_strerror(error)));
    const std::unique_ptr<addrinfo, FreeAddresses> owner(list);
    std::vector<std::string> addresses;
    for (const int family : {AF_INET, AF_INET6})
      for (const addrinfo* at = list; at != nullptr; at = at->ai_next) {
        char text[NI_MAXHOST];
        if (at->ai_family == family && ::getnameinfo(at->ai_addr, at->ai_addrlen, text, sizeof text,
                                                     nullptr, 0, NI_NUMERICHOST) == 0)
          addresses.emplace_back(text);
      }
    return addresses;
  };
}

}  // namespace llmd::fleet
