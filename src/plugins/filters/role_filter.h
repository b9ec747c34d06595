#pragma once

#include "schedule/interfaces.h"

#include <algorithm>
#include <span>
#include <string>
#include <string_view>

namespace llmd::plugins {

/// Keeps endpoints whose label `llm-d.ai/role` is one of `Roles::kRoles` (spec 02 §7);
/// `Roles::kUnlabelled` says whether those without the label stay.
template <class Roles>
class RoleFilter final : public schedule::Filter {
 public:
  size_t filter(schedule::RequestContext& context, std::span<uint32_t> selected) const override {
    size_t kept = 0;
    for (const uint32_t i : selected)
      if (serves(context.candidates[i].endpoint->label(kRoleLabel))) selected[kept++] = i;
    return kept;
  }

  std::string_view metric_type() const override { return "by-label"; }

 private:
  static constexpr std::string_view kRoleLabel = "llm-d.ai/role";

  static bool serves(const std::string* role) {
    if (!role) return Roles::kUnlabelled;
    return std::ranges::find(Roles::kRoles, std::string_view(*role)) != std::end(Roles::kRoles);
  }
};

}  // namespace llmd::plugins
