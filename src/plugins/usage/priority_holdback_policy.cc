#include "flow/policies.h"
#include "plugin/registry.h"

#include <algorithm>
#include <optional>
#include <string>

namespace llmd::plugins {
namespace {

struct Params {
  std::string shape = "linear";
  std::string domain = "rank";
  std::optional<double> min_ceiling;
  double max_ceiling = 1.0;
};

const plugin::Params<Params>& table() {
  static const plugin::Params<Params> params = {
      plugin::field("shape", &Params::shape, "", "How ceilings fall from band to band.")
          .one_of({"linear"}),
      plugin::field("domain", &Params::domain, "",
                    "What they fall along: the rank of the band, or the value of its priority.")
          .one_of({"rank", "value"}),
      plugin::field("minCeiling", &Params::min_ceiling, "",
                    "Ceiling of the lowest band, below 1. Must be given.")
          .min(0),
      plugin::field("maxCeiling", &Params::max_ceiling, "", "Ceiling of the highest band.")
          .positive()
          .max(1),
  };
  return params;
}

class PriorityHoldbackPolicy final : public flow::UsageLimitPolicy {
 public:
  static Result<std::unique_ptr<PriorityHoldbackPolicy>> create(Params params,
                                                                const plugin::Context&) {
    if (!params.min_ceiling) return fail(Code::kBadRequest, "parameter 'minCeiling': is missing");
    if (*params.min_ceiling >= params.max_ceiling)
      return fail(Code::kBadRequest, "parameter 'minCeiling': must be below maxCeiling, not " +
                                         plugin::values::to_json(*params.min_ceiling));
    return std::unique_ptr<PriorityHoldbackPolicy>(new PriorityHoldbackPolicy(params));
  }

  void compute(double, std::span<const int32_t> priorities, TimePoint,
               std::span<double> ceilings) const override {
    for (size_t i = 0; i < ceilings.size(); ++i)
      ceilings[i] = max_ - drop(priorities, i) * (max_ - min_);
  }

 private:
  explicit PriorityHoldbackPolicy(const Params& params)
      : by_rank_(params.domain == "rank"), min_(*params.min_ceiling), max_(params.max_ceiling) {}

  /// How far down band `i` is: 0 for the highest, 1 for the lowest.
  double drop(std::span<const int32_t> priorities, size_t i) const {
    const double highest = priorities.front();
    const double lowest = priorities.back();
    if (priorities.size() == 1 || highest == lowest) return 0;
    if (by_rank_) return static_cast<double>(i) / static_cast<double>(priorities.size() - 1);
    return (highest - priorities[i]) / (highest - lowest);
  }

  const bool by_rank_;
  const double min_;
  const double max_;
};

}  // namespace

const plugin::Descriptor& priority_holdback_policy() {
  static const auto descriptor = plugin::describe<PriorityHoldbackPolicy>(
      {.type = "priority-holdback-policy",
       .kind = "usage limit policy",
       .summary = "Holds back a share of the pool from lower bands: the lower the priority, the "
                  "lower the ceiling.",
       .stability = plugin::Stability::kAlpha},
      table());
  return descriptor;
}

}  // namespace llmd::plugins
