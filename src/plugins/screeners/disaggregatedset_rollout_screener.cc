#include "rollout_shares.h"

#include "base/text.h"
#include "filters/label_selector.h"
#include "plugin/registry.h"
#include "schedule/interfaces.h"

#include <algorithm>
#include <array>
#include <optional>

namespace llmd::plugins {
namespace {

using schedule::Candidate;
using schedule::RequestContext;

constexpr std::string_view kType = "disaggregatedset-rollout-screener";

struct HeaderSelector {
  std::string name;
  std::string header;
  std::string label;
  std::string mode = "strict";
};
struct Scope {
  std::optional<LabelSelector> selector;
};
struct Roles {
  std::vector<std::string> values;
};
struct Gating {
  std::string revision_label = "disaggregatedset.x-k8s.io/revision";
  std::string role_label = "disaggregatedset.x-k8s.io/role";
  std::string mode = "sum";
  Roles roles;
};
struct Params {
  Scope scope;
  std::vector<HeaderSelector> selectors;
  std::optional<Gating> gating;
};

const plugin::Params<HeaderSelector>& selector_table() {
  static const plugin::Params<HeaderSelector> params = {
      plugin::field("name", &HeaderSelector::name, "", "Its name in metrics."),
      plugin::field("headerName", &HeaderSelector::header, "",
                    "Header of requests and of answers."),
      plugin::field("labelKey", &HeaderSelector::label, "", "Label that the header speaks of."),
      plugin::field("mode", &HeaderSelector::mode, "",
                    "strict: only endpoints whose label is the header's value; prefer: the answer "
                    "tells the label, requests are not limited.")
          .one_of({"strict", "prefer"}),
  };
  return params;
}

const plugin::Params<Params>& table() {
  static const plugin::Params<Scope> scope = {
      plugin::object_field("labelSelector", &Scope::selector, label_selector_table(),
                           "Which endpoints take part in the rollout."),
  };
  static const plugin::Params<Roles> roles = {
      plugin::field("values", &Roles::values, "",
                    "Roles of which a revision needs an endpoint each."),
  };
  static const plugin::Params<Gating> gating = {
      plugin::field("revisionLabelKey", &Gating::revision_label, "",
                    "Label with an endpoint's revision."),
      plugin::field("roleLabelKey", &Gating::role_label, "", "Label with an endpoint's role."),
      plugin::field("mode", &Gating::mode, "",
                    "How requests are divided: by the endpoints of all roles, or of the role that "
                    "has most, or not.")
          .one_of({"sum", "max-role", "disabled"}),
      plugin::object_field("requireRoles", &Gating::roles, roles,
                           "What makes a revision complete."),
  };
  static const plugin::Params<Params> params = {
      plugin::object_field("scope", &Params::scope, scope, "The rollout."),
      plugin::list_field("headerSelectors", &Params::selectors, selector_table(),
                         "Headers by which requests stay with their revision."),
      plugin::object_field("revisionGating", &Params::gating, gating,
                           "Which revision serves a request that names none."),
  };
  return params;
}

template <class T, class Field>
bool distinct(const std::vector<T>& items, Field field) {
  std::vector<std::string> values;
  for (const auto& item : items) values.push_back(field(item));
  std::ranges::sort(values);
  return std::ranges::adjacent_find(values) == values.end();
}

Status check(Params& p) {
  const auto missing = [](std::string_view name) {
    return fail(Code::kBadRequest, "parameter '" + std::string(name) + "' is missing");
  };
  if (!p.scope.selector) return missing("scope.labelSelector");
  LLMD_TRY(p.scope.selector->check());
  if (!p.gating) return missing("revisionGating");
  for (auto& s : p.selectors) {
    s.header = to_lower(trim(s.header));
    if (s.name.empty() || s.header.empty() || s.label.empty())
      return fail(Code::kBadRequest,
                  "parameter 'headerSelectors': each needs 'name', 'headerName' and 'labelKey'");
  }
  if (!distinct(p.selectors, [](const auto& s) { return s.name; }) ||
      !distinct(p.selectors, [](const auto& s) { return s.header; }))
    return fail(Code::kBadRequest, "parameter 'headerSelectors': names and headers must differ");
  if (p.gating->mode == "disabled") return {};
  const auto& roles = p.gating->roles.values;
  const auto empty = [](const std::string& role) { return role.empty(); };
  if (roles.empty() || std::ranges::any_of(roles, empty) ||
      !distinct(roles, [](const auto& r) { return r; }))
    return fail(Code::kBadRequest,
                "parameter 'revisionGating.requireRoles.values' needs different roles, none empty");
  return {};
}

RolloutMode mode_of(const std::string& word) {
  if (word == "sum") return RolloutMode::kSum;
  return word == "max-role" ? RolloutMode::kMaxRole : RolloutMode::kDisabled;
}

const metric::Definition kNoMatch = {
    .name = "llm_d_epp_disaggregatedset_strict_header_no_match_total",
    .kind = metric::Kind::kCounter,
    .help = "Requests whose header named endpoints that are not there.",
    .labels = {"plugin_type", "plugin_name", "selector"},
    .buckets = {},
    .twins = {}};

/// Sends each request to one revision of a rollout, those that name theirs to that one.
class RolloutScreener final : public schedule::Screener, public schedule::ResponseHook {
 public:
  static Result<std::unique_ptr<RolloutScreener>> create(Params p, const plugin::Context& context) {
    LLMD_TRY(check(p));
    return std::make_unique<RolloutScreener>(std::move(p), context);
  }

  RolloutScreener(Params p, const plugin::Context& context)
      : scope_(std::move(*p.scope.selector)),
        selectors_(std::move(p.selectors)),
        gating_(std::move(*p.gating)),
        mode_(mode_of(gating_.mode)) {
    for (const auto& selector : selectors_) {
      const std::array<std::string_view, 3> labels = {kType, context.name, selector.name};
      no_match_.push_back(context.metrics.family(kNoMatch).counter(labels));
    }
  }

  Status screen(RequestContext& context, std::span<const Candidate> candidates,
                std::span<bool> keep) const override {
    bool named = false;
    for (const auto& selector : selectors_) named |= !wanted(context, selector).empty();
    if (mode_ != RolloutMode::kDisabled) gate(context, candidates, keep, named);
    for (size_t s = 0; s < selectors_.size(); ++s) {
      const auto value = wanted(context, selectors_[s]);
      if (value.empty()) continue;
      bool any = false;
      for (size_t i = 0; i < keep.size(); ++i) {
        const auto* label = candidates[i].endpoint->label(selectors_[s].label);
        keep[i] = keep[i] && label && *label == value;
        any |= keep[i];
      }
      if (any) continue;
      no_match_[s].add();
      break;
    }
    return {};
  }

  void on_response_head(RequestContext& context) const override {
    for (const auto& selector : selectors_)
      if (const auto* label = context.target().label(selector.label))
        context.response_headers.set(selector.header, *label);
  }

 private:
  static std::string_view wanted(const RequestContext& context, const HeaderSelector& selector) {
    return selector.mode == "strict" ? context.headers.get(selector.header) : std::string_view();
  }

  /// Keeps complete revisions, and of these one unless the request names its own.
  void gate(RequestContext& context, std::span<const Candidate> candidates, std::span<bool> keep,
            bool named) const {
    const auto shares = rollout_shares(count(context), gating_.roles.values.size(), mode_);
    const auto chosen =
        named || shares.empty() ? std::string_view() : pick_revision(shares, context.rng.uniform());
    for (size_t i = 0; i < keep.size(); ++i) {
      const auto* revision = candidates[i].endpoint->label(gating_.revision_label);
      keep[i] =
          revision &&
          (named ? std::ranges::find(shares, std::string_view(*revision),
                                     &std::pair<std::string_view, double>::first) != shares.end()
                 : !shares.empty() && *revision == chosen);
    }
  }

  RolloutCounts count(const RequestContext& context) const {
    RolloutCounts counts;
    const auto& roles = gating_.roles.values;
    for (const auto& endpoint : context.snapshot->endpoints) {
      const auto* revision = endpoint->label(gating_.revision_label);
      const auto* role = endpoint->label(gating_.role_label);
      if (!revision || !role || !scope_.selects(*endpoint)) continue;
      auto& by_role = counts[*revision];
      by_role.resize(roles.size());
      const auto at = std::ranges::find(roles, *role);
      if (at != roles.end()) ++by_role[static_cast<size_t>(at - roles.begin())];
    }
    return counts;
  }

  const LabelSelector scope_;
  const std::vector<HeaderSelector> selectors_;
  const Gating gating_;
  const RolloutMode mode_;
  std::vector<metric::Counter> no_match_;  // by selector
};

}  // namespace

const plugin::Descriptor& disaggregatedset_rollout_screener() {
  static const auto descriptor = plugin::describe<RolloutScreener>(
      {.type = kType,
       .kind = "screener",
       .summary = "Keeps a request within one revision of a rollout: the one that a header names, "
                  "or one by the revisions' shares of endpoints.",
       .stability = plugin::Stability::kAlpha},
      table());
  return descriptor;
}

}  // namespace llmd::plugins
