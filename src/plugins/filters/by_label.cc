#include "plugin/registry.h"
#include "schedule/interfaces.h"

#include <algorithm>

namespace llmd::plugins {
namespace {

struct Params {
  std::string label;
  std::vector<std::string> values;
  bool allows_no_label = false;
};

const plugin::Params<Params>& table() {
  static const plugin::Params<Params> params = {
      plugin::field("label", &Params::label, "", "The label to look at."),
      plugin::field("validValues", &Params::values, "", "Values with which an endpoint is kept."),
      plugin::field("allowsNoLabel", &Params::allows_no_label, "",
                    "Keep endpoints without the label too."),
  };
  return params;
}

class ByLabel final : public schedule::Filter {
 public:
  static Result<std::unique_ptr<ByLabel>> create(Params p, const plugin::Context&) {
    if (p.label.empty()) return fail(Code::kBadRequest, "parameter 'label' is missing");
    if (p.values.empty() && !p.allows_no_label)
      return fail(Code::kBadRequest,
                  "parameter 'validValues' must not be empty unless allowsNoLabel is true");
    return std::make_unique<ByLabel>(std::move(p));
  }

  explicit ByLabel(Params params) : params_(std::move(params)) {}

  size_t filter(schedule::RequestContext& context, std::span<uint32_t> selected) const override {
    size_t kept = 0;
    for (const uint32_t i : selected)
      if (keeps(context.candidates[i].endpoint->label(params_.label))) selected[kept++] = i;
    return kept;
  }

 private:
  bool keeps(const std::string* value) const {
    if (!value) return params_.allows_no_label;
    return std::ranges::find(params_.values, *value) != params_.values.end();
  }

  const Params params_;
};

}  // namespace

const plugin::Descriptor& by_label() {
  static const auto descriptor = plugin::describe<ByLabel>(
      {.type = "by-label",
       .kind = "filter",
       .summary = "Keeps endpoints whose label has one of the given values.",
       .replaced_by = "label-selector-filter"},
      table());
  return descriptor;
}

}  // namespace llmd::plugins
