#include "flow/policies.h"
#include "plugin/registry.h"

#include <algorithm>
#include <cmath>

namespace llmd::plugins {
namespace {

constexpr Nanos kTick = std::chrono::milliseconds(1);

/// The highest band is always open. Another is open while the pool is emptier than its reflection
/// of the saturation, the lower the sooner shut; beyond that it opens for one tick of a period
/// that grows with the saturation. The reference counts calls; here a tick is a millisecond, so
/// that what is let in does not depend on how often anyone asks.
class SoftReflectiveCeilingPolicy final : public flow::UsageLimitPolicy {
 public:
  void compute(double saturation, std::span<const int32_t>, TimePoint now,
               std::span<double> ceilings) const override {
    std::ranges::fill(ceilings, 1.0);
    if (ceilings.size() < 2) return;
    const auto last = static_cast<double>(ceilings.size() - 1);
    for (size_t i = 1; i < ceilings.size(); ++i)
      if (saturation >= 1 - static_cast<double>(i) * saturation / last)
        ceilings[i] = is_open(saturation, now) ? 1 : 0;
  }

 private:
  static bool is_open(double saturation, TimePoint now) {
    if (saturation >= 1) return false;
    const double period = std::round(saturation / (1 - saturation + 1e-9));
    return now.time_since_epoch() / kTick % std::max<int64_t>(1, static_cast<int64_t>(period)) == 0;
  }
};

}  // namespace

const plugin::Descriptor& soft_reflective_ceiling_policy() {
  static const auto descriptor = plugin::describe<SoftReflectiveCeilingPolicy>(
      {.type = "soft-reflective-ceiling-policy",
       .kind = "usage limit policy",
       .summary = "Lower bands are let in ever more seldom as the pool fills, not shut out at one "
                  "point.",
       .stability = plugin::Stability::kAlpha});
  return descriptor;
}

}  // namespace llmd::plugins
