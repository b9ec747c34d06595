#include "params.h"
#include "random_pick.h"
#include "weighted_key.h"

#include "plugin/registry.h"
#include "schedule/interfaces.h"

#include <algorithm>
#include <numeric>

namespace llmd::plugins {
namespace {

class WeightedRandomPicker final : public schedule::Picker {
 public:
  WeightedRandomPicker(PickerParams p, const plugin::Context&) : params_(p) {}

  size_t pick(schedule::RequestContext& context, std::span<const uint32_t> selected,
              std::span<const double> totals, std::span<uint32_t> picked) const override {
    const size_t count = params_.count(selected.size());
    if (std::ranges::none_of(totals, [](double total) { return total > 0; })) {
      pick_at_random(context.rng, selected, picked, count);
      return count;
    }
    const auto keys = context.arena.array<double>(selected.size());
    for (size_t i = 0; i < keys.size(); ++i)
      keys[i] = weighted_key(totals[i], context.rng.uniform());
    std::iota(picked.begin(), picked.end(), 0u);
    std::ranges::partial_sort(
        picked, picked.begin() + static_cast<ptrdiff_t>(count),
        [&](uint32_t a, uint32_t b) { return keys[a] != keys[b] ? keys[a] > keys[b] : a < b; });
    for (uint32_t& at : picked.first(count)) at = selected[at];
    return count;
  }

 private:
  const PickerParams params_;
};

}  // namespace

const plugin::Descriptor& weighted_random_picker() {
  static const auto descriptor = plugin::describe<WeightedRandomPicker>(
      {.type = "weighted-random-picker",
       .kind = "picker",
       .summary = "Picks at random with probabilities in proportion to the total scores."},
      picker_table());
  return descriptor;
}

}  // namespace llmd::plugins
