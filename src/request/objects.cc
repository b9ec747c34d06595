#include "request/objects.h"

#include <algorithm>
#include <tuple>

namespace llmd::request {

std::string_view choose_target(const RewriteRule& rule, Rng& rng) {
  if (rule.targets.empty()) return {};
  int64_t total = 0;
  for (const auto& target : rule.targets) total += target.weight.value_or(0);
  if (total == 0) return rule.targets[rng.below(rule.targets.size())].model;
  auto left = static_cast<int64_t>(rng.below(static_cast<uint64_t>(total)));
  for (const auto& target : rule.targets)
    if ((left -= target.weight.value_or(0)) < 0) return target.model;
  return {};
}

Objects::Objects(std::vector<Objective> objectives, std::vector<ModelRewrite> rewrites)
    : rewrites_(std::move(rewrites)) {
  for (auto& objective : objectives)
    priorities_.try_emplace(std::move(objective.name), objective.priority);
  std::ranges::sort(rewrites_, [](const ModelRewrite& a, const ModelRewrite& b) {
    return std::tie(a.created, a.name) < std::tie(b.created, b.name);
  });
  for (const auto& rewrite : rewrites_)
    for (const auto& rule : rewrite.rules) {
      if (rule.any_model && !generic_.rule) generic_ = {&rule, rewrite.name};
      for (const auto& model : rule.models) exact_.try_emplace(model, Rule{&rule, rewrite.name});
    }
}

int32_t Objects::priority(std::string_view objective) const {
  const auto found = priorities_.find(objective);
  return found == priorities_.end() ? 0 : found->second;
}

std::vector<int32_t> Objects::priorities() const {
  std::vector<int32_t> all;
  for (const auto& [name, priority] : priorities_) all.push_back(priority);
  std::ranges::sort(all);
  const auto rest = std::ranges::unique(all);
  all.erase(rest.begin(), rest.end());
  return all;
}

Objects::Rule Objects::rule_for(std::string_view model) const {
  const auto found = exact_.find(model);
  return found == exact_.end() ? generic_ : found->second;
}

}  // namespace llmd::request
