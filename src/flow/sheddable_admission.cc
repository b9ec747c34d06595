#include "flow/sheddable_admission.h"

namespace llmd::flow {
namespace {

constexpr double kSaturated = 1.0;

class SheddableAdmission final : public schedule::Admission {
 public:
  explicit SheddableAdmission(const schedule::SaturationDetector& detector) : detector_(detector) {}

  Result<schedule::Progress> admit(
      schedule::RequestContext& context,
      const std::function<std::span<const schedule::Candidate>()>& locate) const override {
    if (context.priority >= 0) return schedule::Progress::kDone;
    // An empty pool is not full: that there are no endpoints is said after admission.
    const auto candidates = locate();
    if (!candidates.empty() && detector_.saturation(candidates, context.clock.now()) >= kSaturated)
      return fail(Code::kResourceExhausted, "system saturated, sheddable request dropped",
                  "rejected-saturated");
    return schedule::Progress::kDone;
  }

 private:
  const schedule::SaturationDetector& detector_;
};

}  // namespace

std::unique_ptr<schedule::Admission> sheddable_admission(
    const schedule::SaturationDetector& detector) {
  return std::make_unique<SheddableAdmission>(detector);
}

}  // namespace llmd::flow
