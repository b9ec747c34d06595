#include "params.h"
#include "rotation.h"

#include "plugin/registry.h"
#include "schedule/decision_notes.h"
#include "schedule/interfaces.h"

#include <algorithm>
#include <numeric>

namespace llmd::plugins {
namespace {

class MaxScorePicker final : public schedule::Picker {
 public:
  MaxScorePicker(PickerParams p, const plugin::Context& context)
      : params_(p),
        rotation_(context.state.get<Rotation>(context.name, [] { return new Rotation; })) {}

  size_t pick(schedule::RequestContext& context, std::span<const uint32_t> selected,
              std::span<const double> totals, std::span<uint32_t> picked) const override {
    const size_t count = params_.count(selected.size());
    if (count == 1) {
      picked[0] = best(context, selected, totals);
      return 1;
    }
    const auto seen = context.arena.array<Rotation::Seen>(selected.size());
    const auto before = [&](uint32_t a, uint32_t b) {
      if (totals[a] != totals[b]) return totals[a] > totals[b];
      if (seen[a].turn != seen[b].turn) return seen[a].turn < seen[b].turn;
      return a < b;
    };
    const auto endpoint = [&](uint32_t at) -> const fleet::Endpoint& {
      return *context.candidates[selected[at]].endpoint;
    };
    do {
      for (uint32_t i = 0; i < selected.size(); ++i) seen[i] = rotation_->see(endpoint(i));
      std::iota(picked.begin(), picked.end(), 0u);
      std::ranges::partial_sort(picked, picked.begin() + static_cast<ptrdiff_t>(count), before);
    } while (!take(context, endpoint(picked[0]), seen[picked[0]]));
    for (uint32_t& at : picked.first(count)) at = selected[at];
    return count;
  }

 private:
  /// Of those with the highest total, the one whose turn is longest ago.
  uint32_t best(const schedule::RequestContext& context, std::span<const uint32_t> selected,
                std::span<const double> totals) const {
    for (;;) {
      const fleet::Endpoint* chosen = nullptr;
      uint32_t candidate = 0;
      double highest = 0;
      Rotation::Seen oldest;
      for (size_t i = 0; i < selected.size(); ++i) {
        if (chosen && totals[i] < highest) continue;
        const auto* endpoint = context.candidates[selected[i]].endpoint;
        const auto seen = rotation_->see(*endpoint);
        if (chosen && totals[i] == highest && seen.turn >= oldest.turn) continue;
        chosen = endpoint;
        candidate = selected[i];
        highest = totals[i];
        oldest = seen;
      }
      if (take(context, *chosen, oldest)) return candidate;
    }
  }

  /// False when the turn was someone else's.
  bool take(const schedule::RequestContext& context, const fleet::Endpoint& endpoint,
            Rotation::Seen seen) const {
    const uint64_t turn = rotation_->take(endpoint, seen);
    if (turn != 0 && context.notes) context.notes->turn = {.taken = turn, .before = seen.turn};
    return turn != 0;
  }

  const PickerParams params_;
  const std::shared_ptr<Rotation> rotation_;
};

}  // namespace

const plugin::Descriptor& max_score_picker() {
  static const auto descriptor = plugin::describe<MaxScorePicker>(
      {.type = "max-score-picker",
       .kind = "picker",
       .summary = "Picks the highest total scores; equal ones take turns."},
      picker_table());
  return descriptor;
}

}  // namespace llmd::plugins
