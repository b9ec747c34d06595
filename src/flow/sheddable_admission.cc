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
    if (context.priority < 0 && detector_.saturation(locate(), context.clock.now()) >= kSaturated)
      return fail(Code::kResourceExhausted, "system saturated, sheddable request dropped");
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
