#include "decision_states.h"

#include "base/text.h"
#include "http/message.h"
#include "route/request_id.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace llmd::admin {
namespace {

constexpr size_t kLimitDefault = 50;
constexpr size_t kLimitMost = 1000;
constexpr std::array<std::string_view, 2> kNames = {"request_id", "limit"};

Status set_limit(schedule::DecisionQuery& out, std::string_view value) {
  const auto number = parse_int(value);
  if (!number || *number < 1 || *number > static_cast<int64_t>(kLimitMost))
    return fail(Code::kBadRequest,
                fmt::format("limit: '{}' is not a number from 1 to {}", value, kLimitMost));
  out.limit = static_cast<size_t>(*number);
  return {};
}

Status set_request_id(schedule::DecisionQuery& out, std::string_view value) {
  auto id = http::percent_decode(value);
  if (!id || !route::is_request_id(*id))
    return fail(
        Code::kBadRequest,
        fmt::format("request_id: '{}' is not 1 to {} visible characters, percent-encoded",
                    value.substr(0, 2 * route::kRequestIdBytesMax), route::kRequestIdBytesMax));
  out.request_id = std::move(*id);
  return {};
}

}  // namespace

Result<schedule::DecisionQuery> parse_decision_query(std::string_view query) {
  schedule::DecisionQuery out{.limit = kLimitDefault};
  std::array<bool, kNames.size()> seen{};
  while (!query.empty()) {
    const auto pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(pair.size() + 1, query.size()));
    const auto name = pair.substr(0, pair.find('='));
    const auto value = pair.substr(std::min(name.size() + 1, pair.size()));
    const size_t which = static_cast<size_t>(std::ranges::find(kNames, name) - kNames.begin());
    if (which == kNames.size())
      return fail(Code::kBadRequest,
                  fmt::format("unknown parameter '{}'{}; there are request_id and limit", name,
                              suggestion(name, kNames)));
    if (std::exchange(seen[which], true))
      return fail(Code::kBadRequest, fmt::format("{}: is given twice", name));
    LLMD_TRY(which == 0 ? set_request_id(out, value) : set_limit(out, value));
  }
  return out;
}

}  // namespace llmd::admin
