#include "request_tokens.h"

#include "base/text.h"
#include "plugin/registry.h"
#include "schedule/attributes.h"
#include "schedule/interfaces.h"
#include "schedule/wiring.h"

#include <cmath>
#include <optional>

namespace llmd::plugins {
namespace {

struct Params {
  std::string label = "llm-d.ai/context-length-range";
  bool filter = false;
};

const plugin::Params<Params>& table() {
  static const plugin::Params<Params> params = {
      plugin::field("label", &Params::label, "",
                    "Endpoint label with the range of prompt lengths it is meant for, in tokens, "
                    "as \"min-max\"."),
      plugin::field("enableFiltering", &Params::filter, "",
                    "As a filter: drop endpoints whose range the prompt is outside of."),
  };
  return params;
}

struct Range {
  int64_t min = 0;
  int64_t max = 0;
};

std::optional<Range> parse_range(std::string_view text) {
  const size_t dash = text.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const auto min = parse_int(trim(text.substr(0, dash)));
  const auto max = parse_int(trim(text.substr(dash + 1)));
  if (!min || !max || *min > *max) return std::nullopt;
  return Range{*min, *max};
}

/// Inside the range 0.3 to 1, the narrower the range and the more room above the better; outside
/// 0.3 and less, by the distance to the range.
double rate(int64_t tokens, Range range) {
  const auto n = static_cast<double>(tokens);
  const auto min = static_cast<double>(range.min);
  const auto max = static_cast<double>(range.max);
  if (tokens < range.min || tokens > range.max)
    return 0.3 / (1 + (tokens < range.min ? min - n : n - max) / 1000);
  const double width = max - min;
  if (width == 0) return 1;
  return 0.3 + 0.7 * (0.7 / (1 + width / 10000) + 0.3 * (max - n) / width);
}

class ContextLengthAware final : public schedule::Filter, public schedule::Scorer {
 public:
  static Result<std::unique_ptr<ContextLengthAware>> create(Params p, const plugin::Context&) {
    if (p.label.empty()) return fail(Code::kBadRequest, "parameter 'label' must not be empty");
    return std::make_unique<ContextLengthAware>(std::move(p));
  }

  explicit ContextLengthAware(Params params) : params_(std::move(params)) {}

  void wire(schedule::Wiring& wiring) override {
    wiring.consumes<schedule::TokenizedPrompt>("token-producer", schedule::Need::kRequired);
  }

  size_t filter(schedule::RequestContext& context, std::span<uint32_t> selected) const override {
    if (!params_.filter) return selected.size();
    const int64_t tokens = request_tokens(context);
    size_t kept = 0;
    for (const uint32_t i : selected)
      if (admits(context.candidates[i].endpoint->label(params_.label), tokens))
        selected[kept++] = i;
    return kept;
  }

  void score(schedule::RequestContext& context, std::span<const uint32_t> selected,
             std::span<double> scores) const override {
    const int64_t tokens = request_tokens(context);
    for (size_t k = 0; k < selected.size(); ++k) {
      const auto* label = context.candidates[selected[k]].endpoint->label(params_.label);
      if (!label) {
        scores[k] = 0.5;
      } else if (const auto range = parse_range(*label)) {
        scores[k] = rate(tokens, *range);
      }
    }
  }

 private:
  static bool admits(const std::string* label, int64_t tokens) {
    if (!label) return true;
    const auto range = parse_range(*label);
    return range && tokens >= range->min && tokens <= range->max;
  }

  const Params params_;
};

}  // namespace

const plugin::Descriptor& context_length_aware() {
  static const auto descriptor = plugin::describe<ContextLengthAware>(
      {.type = "context-length-aware",
       .kind = "filter and scorer",
       .summary = "Prefers, or keeps only, endpoints meant for prompts of this length; 0.5 for "
                  "those without a range."},
      table());
  return descriptor;
}

}  // namespace llmd::plugins
