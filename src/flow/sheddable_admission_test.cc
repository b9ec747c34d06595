#include "flow/sheddable_admission.h"

#include <gtest/gtest.h>

namespace llmd::flow {
namespace {

class FixedDetector final : public schedule::SaturationDetector {
 public:
  double saturation(std::span<const schedule::Candidate> candidates, TimePoint) const override {
    seen = candidates.size();
    return value;
  }
  double value = 0;
  mutable size_t seen = 0;
};

class SheddableAdmissionTest : public testing::Test {
 protected:
  Result<schedule::Progress> admit(int32_t priority, double saturation) {
    detector_.value = saturation;
    context_.priority = priority;
    return admission_->admit(context_, [this] {
      ++located_;
      return std::span<const schedule::Candidate>(candidates_);
    });
  }

  Arena arena_;
  Rng rng_{1};
  ManualClock clock_;
  schedule::RequestContext context_{arena_, rng_, clock_};
  std::vector<schedule::Candidate> candidates_{3};
  int located_ = 0;
  FixedDetector detector_;
  std::unique_ptr<schedule::Admission> admission_ = sheddable_admission(detector_);
};

TEST_F(SheddableAdmissionTest, LetsOthersPassWithoutLooking) {
  EXPECT_TRUE(admit(0, 2.0));
  EXPECT_TRUE(admit(5, 2.0));
  EXPECT_EQ(located_, 0);
}

TEST_F(SheddableAdmissionTest, LetsSheddableRequestsPassBelowSaturation) {
  EXPECT_TRUE(admit(-1, 0.999));
  EXPECT_EQ(detector_.seen, 3u);
}

TEST_F(SheddableAdmissionTest, RefusesSheddableRequestsAtSaturation) {
  const auto answer = admit(-1, 1.0);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::kResourceExhausted);
  EXPECT_EQ(answer.error().message, "system saturated, sheddable request dropped");
  EXPECT_EQ(answer.error().drop_reason, "rejected-saturated");
}

TEST_F(SheddableAdmissionTest, LetsEverybodyPassToAnEmptyPool) {
  candidates_.clear();
  EXPECT_TRUE(admit(-1, 1.0));
}

}  // namespace
}  // namespace llmd::flow
