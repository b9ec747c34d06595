#include "header_rules.h"

#include <algorithm>

namespace llmd::frontend::ext_proc {
namespace {

/// Above the 100 lines that Envoy takes by default, and low enough to compare all with all.
constexpr size_t kEchoedMax = 128;

constexpr std::string_view kControl[] = {"x-llm-d-inference-objective",
                                         "x-gateway-inference-objective",
                                         "x-llm-d-inference-fairness-id",
                                         "x-gateway-inference-fairness-id",
                                         "x-llm-d-model-name-rewrite",
                                         "x-gateway-model-name-rewrite",
                                         "x-llm-d-slo-ttft-ms",
                                         "x-llm-d-slo-tpot-ms",
                                         "x-slo-ttft-ms",
                                         "x-slo-tpot-ms",
                                         "x-llm-d-request-dropped-reason",
                                         "content-length"};
constexpr std::string_view kVideoPrefix = "x-llm-d-video-";

constexpr std::string_view kRemoved[] = {"x-prefiller-host-port",
                                         "x-encoder-hosts-ports",
                                         "x-data-parallel-host-port",
                                         "x-kv-cache-source-host-port",
                                         "x-gateway-destination-endpoint-subset",
                                         "x-gateway-destination-endpoint-served"};

bool among(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::any_of(names, [&](auto other) { return equals_ignore_case(name, other); });
}

bool may_be_ours(std::string_view name) {
  return name.size() >= 13 && ((name[0] | 32) == 'x' || name.size() == 14);
}

}  // namespace

bool is_removed(std::string_view name) {
  return may_be_ours(name) && among(kRemoved, name);
}

bool is_system_owned(std::string_view name) {
  if (!may_be_ours(name)) return false;
  return among(kControl, name) || among(kRemoved, name) ||
         equals_ignore_case(name, kDestinationHeader) ||
         equals_ignore_case(name.substr(0, kVideoPrefix.size()), kVideoPrefix);
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
