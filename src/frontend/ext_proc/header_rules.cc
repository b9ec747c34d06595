#include "header_rules.h"

#include "client_headers.h"

#include "base/text.h"

#include <algorithm>
#include <array>

namespace llmd::frontend::ext_proc {
namespace {

/// Above the 100 lines that Envoy takes by default, and low enough to compare all with all.
constexpr size_t kEchoedMax = 128;

/// Control headers of clients that no other part of the picker's code asks for.
constexpr std::array<std::string_view, 6> kHints = {"x-llm-d-slo-ttft-ms",
                                                    "x-llm-d-slo-tpot-ms",
                                                    "x-slo-ttft-ms",
                                                    "x-slo-tpot-ms",
                                                    "x-llm-d-request-dropped-reason",
                                                    "content-length"};
constexpr std::string_view kVideoPrefix = "x-llm-d-video-";

}  // namespace

bool is_removed(std::string_view name) {
  return is_routing(name) && !equals_ignore_case(name, kDestinationHeader);
}

bool is_system_owned(std::string_view name) {
  if (name.size() < 13 || ((name[0] | 32) != 'x' && name.size() != 14)) return false;
  return is_routing(name) || control_of(name) != Control::kNone ||
         equals_ignore_case(name.substr(0, kVideoPrefix.size()), kVideoPrefix) ||
         std::ranges::any_of(kHints, [&](auto other) { return equals_ignore_case(name, other); });
}

void echo(HeaderView headers, std::vector<HeaderField>& out) {
  if (headers.size() > kEchoedMax) return;
  const size_t already = out.size();
  for (const auto& field : headers) {
    if (is_system_owned(field.name)) continue;
    const auto same = [&](const auto& other) {
      return other.name.size() == field.name.size() && equals_ignore_case(other.name, field.name);
    };
    if (std::ranges::count_if(headers, same) == 1 &&
        std::none_of(out.begin(), out.begin() + static_cast<ptrdiff_t>(already), same))
      out.push_back(field);
  }
}

}  // namespace llmd::frontend::ext_proc
