#include "base/log.h"
#include "flow/policies.h"
#include "plugin/registry.h"

#include <algorithm>

namespace llmd::plugins {
namespace {

struct Params {
  double threshold = 1.0;
};

const plugin::Params<Params>& table() {
  static const plugin::Params<Params> params = {
      plugin::field("threshold", &Params::threshold, "",
                    "Saturation from which on nobody is let in. Above 1 the pool is overfilled."),
  };
  return params;
}

class StaticUsageLimitPolicy final : public flow::UsageLimitPolicy {
 public:
  StaticUsageLimitPolicy(Params params, const plugin::Context& context) : params_(params) {
    if (params.threshold <= 0 || params.threshold > 1)
      log::warn("threshold outside (0, 1]: nobody is let in, or the pool is overfilled",
                {{"plugin", context.name}, {"threshold", params.threshold}});
  }
  void compute(double, std::span<const int32_t>, TimePoint,
               std::span<double> ceilings) const override {
    std::ranges::fill(ceilings, params_.threshold);
  }

 private:
  const Params params_;
};

}  // namespace

const plugin::Descriptor& static_usage_limit_policy() {
  static const auto descriptor =
      plugin::describe<StaticUsageLimitPolicy>({.type = "static-usage-limit-policy",
                                                .kind = "usage limit policy",
                                                .summary = "One ceiling for all bands."},
                                               table());
  return descriptor;
}

}  // namespace llmd::plugins
