#include "base/text.h"
#include "plugin/registry.h"
#include "schedule/interfaces.h"

namespace llmd::plugins {
namespace {

struct Params {
  std::string header;
  std::string label;
};

const plugin::Params<Params>& table() {
  static const plugin::Params<Params> params = {
      plugin::field("headerName", &Params::header, "", "The request header."),
      plugin::field("labelKey", &Params::label, "", "The endpoint label."),
  };
  return params;
}

class HeaderLabelAffinityScorer final : public schedule::Scorer {
 public:
  static Result<std::unique_ptr<HeaderLabelAffinityScorer>> create(Params p,
                                                                   const plugin::Context&) {
    p.header = to_lower(trim(p.header));
    if (p.header.empty()) return fail(Code::kBadRequest, "parameter 'headerName' is missing");
    if (p.label.empty()) return fail(Code::kBadRequest, "parameter 'labelKey' is missing");
    return std::make_unique<HeaderLabelAffinityScorer>(std::move(p));
  }

  explicit HeaderLabelAffinityScorer(Params params) : params_(std::move(params)) {}

  void score(schedule::RequestContext& context, std::span<const uint32_t> selected,
             std::span<double> scores) const override {
    const auto wanted = context.headers.get(params_.header);
    if (wanted.empty()) return;
    for (size_t k = 0; k < selected.size(); ++k) {
      const auto* value = context.candidates[selected[k]].endpoint->label(params_.label);
      scores[k] = value && *value == wanted ? 1 : 0;
    }
  }

 private:
  const Params params_;
};

}  // namespace

const plugin::Descriptor& header_label_affinity_scorer() {
  static const auto descriptor = plugin::describe<HeaderLabelAffinityScorer>(
      {.type = "header-label-affinity-scorer",
       .kind = "scorer",
       .summary = "Prefers endpoints whose label is what a request header says: 1, others 0.",
       .stability = plugin::Stability::kAlpha},
      table());
  return descriptor;
}

}  // namespace llmd::plugins
