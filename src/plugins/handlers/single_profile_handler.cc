#include "plugin/registry.h"
#include "schedule/interfaces.h"

namespace llmd::plugins {
namespace {

class SingleProfileHandler final : public schedule::ProfileHandler {
 public:
  Status bind(std::span<const std::string> profile_names) override {
    if (profile_names.size() == 1) return {};
    return fail(Code::kBadRequest, "runs exactly one profile; " +
                                       std::to_string(profile_names.size()) + " are configured");
  }

  size_t next(schedule::RequestContext& context, std::span<uint16_t> run) const override {
    if (context.results[0].ran) return 0;
    run[0] = 0;
    return 1;
  }

  Status finish(schedule::RequestContext& context) const override {
    const auto& result = context.results[0];
    if (!result.ran || result.failed || result.targets.empty())
      return fail(Code::kUnknown, "the scheduling profile found no endpoint");
    context.primary = 0;
    return {};
  }
};

}  // namespace

const plugin::Descriptor& single_profile_handler() {
  static const auto descriptor = plugin::describe<SingleProfileHandler>(
      {.type = "single-profile-handler",
       .kind = "profile handler",
       .summary = "Runs the only scheduling profile; its first pick gets the request.",
       .ignores_parameters = true});
  return descriptor;
}

}  // namespace llmd::plugins
