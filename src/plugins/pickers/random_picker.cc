#include "params.h"
#include "random_pick.h"

#include "plugin/registry.h"
#include "schedule/interfaces.h"

namespace llmd::plugins {
namespace {

class RandomPicker final : public schedule::Picker {
 public:
  RandomPicker(PickerParams p, const plugin::Context&) : params_(p) {}

  size_t pick(schedule::RequestContext& context, std::span<const uint32_t> selected,
              std::span<const double>, std::span<uint32_t> picked) const override {
    const size_t count = params_.count(selected.size());
    pick_at_random(context.rng, selected, picked, count);
    return count;
  }

 private:
  const PickerParams params_;
};

}  // namespace

const plugin::Descriptor& random_picker() {
  static const auto descriptor =
      plugin::describe<RandomPicker>({.type = "random-picker",
                                      .kind = "picker",
                                      .summary = "Picks at random, whatever the scores are."},
                                     picker_table());
  return descriptor;
}

}  // namespace llmd::plugins
