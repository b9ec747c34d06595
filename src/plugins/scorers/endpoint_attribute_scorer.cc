#include "endpoint_attribute.h"

#include "plugin/registry.h"
#include "schedule/interfaces.h"

#include <algorithm>
#include <limits>

namespace llmd::plugins {
namespace {

constexpr std::string_view kLower = "linear_lower_is_better";
constexpr std::string_view kHigher = "linear_higher_is_better";

struct FixedRange {
  std::optional<double> min;
  std::optional<double> max;
};
struct AdaptiveRange {};
struct Normalization {
  std::optional<FixedRange> fixed;
  std::optional<AdaptiveRange> adaptive;
};
struct Algorithm {
  std::string type;
  Normalization normalization;
};
struct Params {
  std::string attribute;
  std::optional<std::string> producer;
  Algorithm algorithm;
};

const plugin::Params<FixedRange>& fixed_table() {
  static const plugin::Params<FixedRange> params = {
      plugin::field("min", &FixedRange::min, "", "The number that counts as 0."),
      plugin::field("max", &FixedRange::max, "", "The number that counts as 1; above min."),
  };
  return params;
}

const plugin::Params<Normalization>& normalization_table() {
  static const plugin::Params<Normalization> params = {
      plugin::object_field("fixedRange", &Normalization::fixed, fixed_table(),
                           "From 0 to 1 between two given numbers."),
      plugin::object_field("adaptiveRange", &Normalization::adaptive,
                           plugin::Params<AdaptiveRange>{},
                           "From 0 to 1 between the candidates' lowest and highest, which is what "
                           "happens without fixedRange."),
  };
  return params;
}

const plugin::Params<Algorithm>& algorithm_table() {
  static const plugin::Params<Algorithm> params = {
      plugin::field("type", &Algorithm::type, "", "Which end of the range is the good one.")
          .one_of({kLower, kHigher}),
      plugin::object_field("normalization", &Algorithm::normalization, normalization_table(),
                           "How numbers are brought to 0 to 1; one of the two."),
  };
  return params;
}

const plugin::Params<Params>& table() {
  static const plugin::Params<Params> params = {
      plugin::field("attributeKey", &Params::attribute, "", "Name of the number."),
      plugin::field("producer", &Params::producer, "",
                    "Who provides it; not given: core-metrics-extractor."),
      plugin::object_field("algorithm", &Params::algorithm, algorithm_table(),
                           "From the number to the score."),
  };
  return params;
}

Status check(const Algorithm& algorithm) {
  if (algorithm.type.empty())
    return fail(Code::kBadRequest, "parameter 'algorithm.type' is missing");
  const auto& [fixed, adaptive] = algorithm.normalization;
  const std::string where = "parameter 'algorithm.normalization";
  if (fixed && adaptive)
    return fail(Code::kBadRequest, where + "' must not have both fixedRange and adaptiveRange");
  if (fixed && !(fixed->min && fixed->max && *fixed->min < *fixed->max))
    return fail(Code::kBadRequest, where + ".fixedRange' needs 'min' and 'max', with min < max");
  return {};
}

class EndpointAttributeScorer final : public schedule::Scorer {
 public:
  static Result<std::unique_ptr<EndpointAttributeScorer>> create(Params p, const plugin::Context&) {
    LLMD_TRY_ASSIGN(const auto attribute,
                    EndpointAttribute::create(p.attribute, p.producer, "attributeKey"));
    LLMD_TRY(check(p.algorithm));
    return std::make_unique<EndpointAttributeScorer>(attribute, p.algorithm);
  }

  EndpointAttributeScorer(EndpointAttribute attribute, const Algorithm& algorithm)
      : attribute_(attribute),
        lower_is_better_(algorithm.type == kLower),
        fixed_(algorithm.normalization.fixed) {}

  void score(schedule::RequestContext& context, std::span<const uint32_t> selected,
             std::span<double> scores) const override {
    constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();
    double min = std::numeric_limits<double>::infinity();
    double max = -min;
    for (size_t k = 0; k < selected.size(); ++k) {
      const auto value = attribute_.of(*context.candidates[selected[k]].endpoint);
      scores[k] = value.value_or(kMissing);
      // A NaN compares as neither.
      if (scores[k] < min) min = scores[k];
      if (scores[k] > max) max = scores[k];
    }
    if (fixed_) {
      min = *fixed_->min;
      max = *fixed_->max;
    }
    for (double& score : scores) score = score == score ? rate(score, min, max) : 0;
  }

 private:
  double rate(double value, double min, double max) const {
    if (min == max) return 1;
    const double place = std::clamp((value - min) / (max - min), 0.0, 1.0);
    return lower_is_better_ ? 1 - place : place;
  }

  const EndpointAttribute attribute_;
  const bool lower_is_better_;
  const std::optional<FixedRange> fixed_;
};

}  // namespace

const plugin::Descriptor& endpoint_attribute_scorer() {
  static const auto descriptor = plugin::describe<EndpointAttributeScorer>(
      {.type = "endpoint-attribute-scorer",
       .kind = "scorer",
       .summary = "Rates endpoints by a number from a data source; 0 for those without it.",
       .stability = plugin::Stability::kAlpha},
      table());
  return descriptor;
}

}  // namespace llmd::plugins
