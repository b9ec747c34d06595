#include "client_headers.h"

#include "base/text.h"

#include <algorithm>
#include <array>
#include <span>

namespace llmd::frontend {
namespace {

constexpr std::array<std::string_view, 7> kRouting = {
    kDestinationHeader,
    "x-gateway-destination-endpoint-served",
    "x-gateway-destination-endpoint-subset",
    "x-prefiller-host-port",
    "x-encoder-hosts-ports",
    "x-data-parallel-host-port",
    "x-kv-cache-source-host-port",
};

struct Named {
  std::string_view name;
  Control control;
};
constexpr std::array<Named, 6> kControls = {{
    {kObjectiveHeader, Control::kObjective},
    {"x-gateway-inference-objective", Control::kObjective},
    {kFairnessHeader, Control::kFairness},
    {"x-gateway-inference-fairness-id", Control::kFairness},
    {"x-llm-d-model-name-rewrite", Control::kRewrite},
    {"x-gateway-model-name-rewrite", Control::kRewrite},
}};

/// Keeps the common headers from being compared with every name.
bool may_be_ours(std::string_view name) {
  return name.size() >= 21 && (name[0] | 32) == 'x' && name[1] == '-';
}

}  // namespace

bool is_routing(std::string_view name) {
  return may_be_ours(name) &&
         std::ranges::any_of(kRouting, [&](auto other) { return equals_ignore_case(name, other); });
}

Control control_of(std::string_view name) {
  if (may_be_ours(name))
    for (const auto& [other, control] : kControls)
      if (equals_ignore_case(name, other)) return control;
  return Control::kNone;
}

bool is_credential(std::string_view name) {
  return (name.size() == 13 && equals_ignore_case(name, "authorization")) ||
         (name.size() == 9 && equals_ignore_case(name, "x-api-key"));
}

}  // namespace llmd::frontend
