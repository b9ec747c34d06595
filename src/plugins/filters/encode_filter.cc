#include "role_filter.h"

#include "plugin/registry.h"

namespace llmd::plugins {
namespace {

struct EncodeRoles {
  static constexpr std::string_view kRoles[] = {"encode", "encode-prefill",
                                                "encode-prefill-decode"};
  static constexpr bool kUnlabelled = false;
};

}  // namespace

const plugin::Descriptor& encode_filter() {
  static const auto descriptor = plugin::describe<RoleFilter<EncodeRoles>>(
      {.type = "encode-filter",
       .kind = "filter",
       .summary = "Keeps endpoints whose label llm-d.ai/role includes encode.",
       .ignores_parameters = true});
  return descriptor;
}

}  // namespace llmd::plugins
