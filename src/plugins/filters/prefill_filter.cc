#include "role_filter.h"

#include "plugin/registry.h"

namespace llmd::plugins {
namespace {

struct PrefillRoles {
  static constexpr std::string_view kRoles[] = {"prefill", "encode-prefill", "prefill-decode",
                                                "both", "encode-prefill-decode"};
  static constexpr bool kUnlabelled = false;
};

}  // namespace

const plugin::Descriptor& prefill_filter() {
  static const auto descriptor = plugin::describe<RoleFilter<PrefillRoles>>(
      {.type = "prefill-filter",
       .kind = "filter",
       .summary = "Keeps endpoints whose label llm-d.ai/role includes prefill.",
       .ignores_parameters = true});
  return descriptor;
}

}  // namespace llmd::plugins
