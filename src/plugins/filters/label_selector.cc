#include "label_selector.h"

#include <algorithm>

namespace llmd::plugins {
namespace {

using Expression = LabelSelector::Expression;

const plugin::Params<Expression>& expression_table() {
  static const plugin::Params<Expression> params = {
      plugin::field("key", &Expression::key, "", "The label."),
      plugin::field("operator", &Expression::op, "", "What must hold of its value.")
          .one_of({"In", "NotIn", "Exists", "DoesNotExist"}),
      plugin::field("values", &Expression::values, "", "For In and NotIn: the values."),
  };
  return params;
}

bool holds(const Expression& expression, const std::string* value) {
  const auto listed = [&] {
    return std::ranges::find(expression.values, *value) != expression.values.end();
  };
  if (expression.op == "In") return value && listed();
  if (expression.op == "NotIn") return !value || !listed();
  return (value != nullptr) == (expression.op == "Exists");
}

}  // namespace

bool LabelSelector::selects(const fleet::Endpoint& endpoint) const {
  return std::ranges::all_of(match_labels,
                             [&](const auto& wanted) {
                               const auto* value = endpoint.label(wanted.first);
                               return value && *value == wanted.second;
                             }) &&
         std::ranges::all_of(match_expressions, [&](const Expression& expression) {
           return holds(expression, endpoint.label(expression.key));
         });
}

Status LabelSelector::check() const {
  for (size_t i = 0; i < match_expressions.size(); ++i) {
    const auto& expression = match_expressions[i];
    const std::string where = "parameter 'matchExpressions[" + std::to_string(i) + "].";
    if (expression.key.empty()) return fail(Code::kBadRequest, where + "key' is missing");
    if (expression.op.empty()) return fail(Code::kBadRequest, where + "operator' is missing");
    const bool needs_values = expression.op.ends_with("In");
    if (needs_values == expression.values.empty())
      return fail(Code::kBadRequest, where + "values' must " + (needs_values ? "not " : "") +
                                         "be empty with operator " + expression.op);
  }
  return {};
}

const plugin::Params<LabelSelector>& label_selector_table() {
  static const plugin::Params<LabelSelector> params = {
      plugin::field("matchLabels", &LabelSelector::match_labels, "",
                    "Labels that must have exactly these values."),
      plugin::list_field("matchExpressions", &LabelSelector::match_expressions, expression_table(),
                         "Conditions that must all hold."),
  };
  return params;
}

}  // namespace llmd::plugins
