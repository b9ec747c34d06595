#pragma once

#include "base/result.h"
#include "fleet/endpoint.h"
#include "plugin/params.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace llmd::plugins {

/// Which labels an endpoint must have, as Kubernetes selects: every entry of matchLabels and every
/// expression holds. An empty selector selects all.
struct LabelSelector {
  struct Expression {
    std::string key;
    std::string op;
    std::vector<std::string> values;
  };
  std::map<std::string, std::string> match_labels;
  std::vector<Expression> match_expressions;

  bool selects(const fleet::Endpoint& endpoint) const;
  /// Whether the expressions make sense; errors name the parameter.
  Status check() const;
};

const plugin::Params<LabelSelector>& label_selector_table();

}  // namespace llmd::plugins
