#include "plugin/registry.h"
#include "schedule/interfaces.h"

namespace llmd::plugins {
namespace {

class AlwaysDisaggPdDecider final : public schedule::Decider {
 public:
  bool separates(const schedule::RequestContext&, std::optional<uint32_t>) const override {
    return true;
  }
};

}  // namespace

const plugin::Descriptor& always_disagg_pd_decider() {
  static const auto descriptor = plugin::describe<AlwaysDisaggPdDecider>(
      {.type = "always-disagg-pd-decider",
       .kind = "decider",
       .summary = "Has every prompt processed on an endpoint of its own.",
       .ignores_parameters = true});
  return descriptor;
}

}  // namespace llmd::plugins
