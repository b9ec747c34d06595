#include "headers.h"

#include "client_headers.h"

#include "base/text.h"
#include "http/message.h"

#include <algorithm>

namespace llmd::frontend {

namespace {

/// What a Connection header may not strip.
bool is_protected(std::string_view name) {
  return (name.size() >= 2 && equals_ignore_case(name.substr(0, 2), "x-")) ||
         equals_ignore_case(name, "host") || equals_ignore_case(name, "content-length") ||
         equals_ignore_case(name, "authorization");
}

}  // namespace

void Nominated::read(HeaderView headers) {
  names_.clear();
  for (const auto& [name, value] : headers) {
    if (name.size() != 10 || !equals_ignore_case(name, "connection")) continue;
    for (auto rest = value; !rest.empty();) {
      const size_t comma = std::min(rest.find(','), rest.size());
      const auto token = trim(rest.substr(0, comma));
      rest.remove_prefix(std::min(comma + 1, rest.size()));
      if (token.empty() || equals_ignore_case(token, "close") ||
          equals_ignore_case(token, "keep-alive") || is_protected(token))
        continue;
      names_.push_back(token);
    }
  }
}

bool Nominated::holds(std::string_view name) const {
  return std::ranges::any_of(names_, [&](auto other) { return equals_ignore_case(name, other); });
}

bool stays_behind(std::string_view name) {
  switch (name.size()) {
    case 4:
      return equals_ignore_case(name, "host");
    case 6:
      return equals_ignore_case(name, "expect");
    case 14:
      return equals_ignore_case(name, "content-length") || http::is_hop_by_hop(name);
    default:
      return http::is_hop_by_hop(name) || is_routing(name);
  }
}

bool stays_behind_in_answer(std::string_view name) {
  switch (name.size()) {
    case 12:
      return equals_ignore_case(name, "x-request-id");
    case 14:
      return equals_ignore_case(name, "content-length") || http::is_hop_by_hop(name);
    case 23:
      return equals_ignore_case(name, "x-llm-d-served-endpoint");
    case 30:
      return equals_ignore_case(name, "x-llm-d-request-dropped-reason");
    default:
      return http::is_hop_by_hop(name);
  }
}

}  // namespace llmd::frontend
