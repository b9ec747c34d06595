#include "label_selector.h"

#include "plugin/registry.h"
#include "schedule/interfaces.h"

namespace llmd::plugins {
namespace {

class LabelSelectorFilter final : public schedule::Filter {
 public:
  static Result<std::unique_ptr<LabelSelectorFilter>> create(LabelSelector selector,
                                                             const plugin::Context&) {
    LLMD_TRY(selector.check());
    return std::make_unique<LabelSelectorFilter>(std::move(selector));
  }

  explicit LabelSelectorFilter(LabelSelector selector) : selector_(std::move(selector)) {}

  size_t filter(schedule::RequestContext& context, std::span<uint32_t> selected) const override {
    size_t kept = 0;
    for (const uint32_t i : selected)
      if (selector_.selects(*context.candidates[i].endpoint)) selected[kept++] = i;
    return kept;
  }

 private:
  const LabelSelector selector_;
};

}  // namespace

const plugin::Descriptor& label_selector_filter() {
  static const auto descriptor = plugin::describe<LabelSelectorFilter>(
      {.type = "label-selector-filter",
       .kind = "filter",
       .summary = "Keeps endpoints whose labels match a selector in Kubernetes' form."},
      label_selector_table());
  return descriptor;
}

const plugin::Descriptor& by_label_selector() {
  static const auto descriptor =
      plugin::describe<LabelSelectorFilter>({.type = "by-label-selector",
                                             .kind = "filter",
                                             .summary = "The same as label-selector-filter.",
                                             .replaced_by = "label-selector-filter"},
                                            label_selector_table());
  return descriptor;
}

}  // namespace llmd::plugins
