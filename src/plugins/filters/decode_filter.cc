#include "role_filter.h"

#include "plugin/registry.h"

namespace llmd::plugins {
namespace {

struct DecodeRoles {
  static constexpr std::string_view kRoles[] = {"decode", "prefill-decode", "both",
                                                "encode-prefill-decode"};
  static constexpr bool kUnlabelled = true;
};

}  // namespace

const plugin::Descriptor& decode_filter() {
  static const auto descriptor = plugin::describe<RoleFilter<DecodeRoles>>(
      {.type = "decode-filter",
       .kind = "filter",
       .summary = "Keeps endpoints whose label llm-d.ai/role includes decode, and those without "
                  "the label.",
       .ignores_parameters = true});
  return descriptor;
}

}  // namespace llmd::plugins
