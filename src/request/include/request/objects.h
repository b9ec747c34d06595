#pragma once

#include "base/rng.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// What operators say about requests beside the configuration: the objects InferenceObjective and
/// InferenceModelRewrite (spec 08 §1.2, 1.3).
namespace llmd::request {

struct Objective {
  std::string name;
  int32_t priority = 0;
};

struct ModelTarget {
  std::string model;
  std::optional<int64_t> weight;
};

struct RewriteRule {
  bool any_model = false;           // the rule has no matches
  std::vector<std::string> models;  // else: the names that it matches
  std::vector<ModelTarget> targets;
};

struct ModelRewrite {
  std::string name;
  std::string created;  // RFC 3339 in UTC; empty: before all others
  std::vector<RewriteRule> rules;
};

/// One target of a rule, by weight: those without one are never chosen where others have one, and
/// all are alike where none has one. "" without targets.
std::string_view choose_target(const RewriteRule& rule, Rng& rng);

/// Immutable; a change makes a new one. Threading: any.
class Objects {
 public:
  Objects() = default;
  /// Of two objectives with one name the first counts.
  Objects(std::vector<Objective> objectives, std::vector<ModelRewrite> rewrites);

  struct Rule {
    const RewriteRule* rule = nullptr;  // null: no rule
    std::string_view rewrite;           // the name of its object
  };

  /// 0 for a name that is not known.
  int32_t priority(std::string_view objective) const;
  /// The rule for a model: one that names it, else one for any model; of several that of the oldest
  /// object, by name where two are as old, and in its order.
  Rule rule_for(std::string_view model) const;

  size_t objectives() const { return priorities_.size(); }
  /// Of all objectives, each once, ascending.
  std::vector<int32_t> priorities() const;
  const std::vector<ModelRewrite>& rewrites() const { return rewrites_; }

 private:
  std::map<std::string, int32_t, std::less<>> priorities_;
  std::vector<ModelRewrite> rewrites_;  // the oldest first
  std::map<std::string_view, Rule> exact_;
  Rule generic_;
};
using ObjectsPtr = std::shared_ptr<const Objects>;

}  // namespace llmd::request
