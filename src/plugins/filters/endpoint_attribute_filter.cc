#include "endpoint_attribute.h"

#include "plugin/registry.h"
#include "schedule/interfaces.h"

#include <algorithm>
#include <array>

namespace llmd::plugins {
namespace {

enum class Operator : uint8_t { kLess, kLessEqual, kGreater, kGreaterEqual, kEqual, kNotEqual };
constexpr std::array<std::string_view, 6> kOperators = {"LessThan",    "LessThanOrEqual",
                                                        "GreaterThan", "GreaterThanOrEqual",
                                                        "Equal",       "NotEqual"};  // by Operator

struct Threshold {
  std::string op;
  std::optional<double> value;
};
struct Algorithm {
  std::string type;
  Threshold threshold;
};
struct Params {
  std::string attribute;
  std::optional<std::string> producer;
  std::string on_missing = "Pass";
  bool fallback_on_empty = false;
  Algorithm algorithm;
};

const plugin::Params<Threshold>& threshold_table() {
  static const plugin::Params<Threshold> params = {
      plugin::field("operator", &Threshold::op, "", "How the number compares with the value.")
          .one_of({kOperators.begin(), kOperators.end()}),
      plugin::field("value", &Threshold::value, "", "What it is compared with."),
  };
  return params;
}

const plugin::Params<Algorithm>& algorithm_table() {
  static const plugin::Params<Algorithm> params = {
      plugin::field("type", &Algorithm::type, "", "The only one is threshold.")
          .one_of({"threshold"}),
      plugin::object_field("threshold", &Algorithm::threshold, threshold_table(),
                           "What must hold of the number."),
  };
  return params;
}

const plugin::Params<Params>& table() {
  static const plugin::Params<Params> params = {
      plugin::field("attribute", &Params::attribute, "", "Name of the number."),
      plugin::field("producer", &Params::producer, "",
                    "Who provides it; not given: core-metrics-extractor."),
      plugin::field("onMissing", &Params::on_missing, "",
                    "What happens to endpoints without the number.")
          .one_of({"Pass", "Fail"}),
      plugin::field("fallbackOnEmpty", &Params::fallback_on_empty, "",
                    "Keep all endpoints when none passes."),
      plugin::object_field("algorithm", &Params::algorithm, algorithm_table(),
                           "Which endpoints pass."),
  };
  return params;
}

class EndpointAttributeFilter final : public schedule::Filter {
 public:
  static Result<std::unique_ptr<EndpointAttributeFilter>> create(Params p, const plugin::Context&) {
    LLMD_TRY_ASSIGN(const auto attribute,
                    EndpointAttribute::create(p.attribute, p.producer, "attribute"));
    for (const auto& [missing, name] :
         {std::pair(p.algorithm.type.empty(), "type"),
          std::pair(p.algorithm.threshold.op.empty(), "threshold.operator"),
          std::pair(!p.algorithm.threshold.value, "threshold.value")})
      if (missing)
        return fail(Code::kBadRequest,
                    "parameter 'algorithm." + std::string(name) + "' is missing");
    return std::make_unique<EndpointAttributeFilter>(attribute, std::move(p));
  }

  EndpointAttributeFilter(EndpointAttribute attribute, const Params& p)
      : attribute_(attribute),
        pass_missing_(p.on_missing == "Pass"),
        fallback_on_empty_(p.fallback_on_empty),
        op_(static_cast<Operator>(std::ranges::find(kOperators, p.algorithm.threshold.op) -
                                  kOperators.begin())),
        threshold_(*p.algorithm.threshold.value) {}

  size_t filter(schedule::RequestContext& context, std::span<uint32_t> selected) const override {
    size_t kept = 0;
    for (const uint32_t i : selected) {
      const auto value = attribute_.of(*context.candidates[i].endpoint);
      if (value ? passes(*value) : pass_missing_) selected[kept++] = i;
    }
    // With nobody left, nothing was overwritten: all stay.
    return kept > 0 || !fallback_on_empty_ ? kept : selected.size();
  }

 private:
  bool passes(double value) const {
    switch (op_) {
      case Operator::kLess:
        return value < threshold_;
      case Operator::kLessEqual:
        return value <= threshold_;
      case Operator::kGreater:
        return value > threshold_;
      case Operator::kGreaterEqual:
        return value >= threshold_;
      case Operator::kEqual:
        return value == threshold_;
      case Operator::kNotEqual:
        break;
    }
    return value != threshold_;
  }

  const EndpointAttribute attribute_;
  const bool pass_missing_;
  const bool fallback_on_empty_;
  const Operator op_;
  const double threshold_;
};

}  // namespace

const plugin::Descriptor& endpoint_attribute_filter() {
  static const auto descriptor = plugin::describe<EndpointAttributeFilter>(
      {.type = "endpoint-attribute-filter",
       .kind = "filter",
       .summary = "Keeps endpoints of which a number from a data source is on the right side of a "
                  "threshold.",
       .stability = plugin::Stability::kAlpha},
      table());
  return descriptor;
}

}  // namespace llmd::plugins
