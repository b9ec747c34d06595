#include "admitters/refusal_probability.h"
#include "schedule/attributes.h"
#include "schedule/testing.h"

#include <gtest/gtest.h>

namespace llmd::plugins {
const plugin::Descriptor& latency_slo_admitter();
const plugin::Descriptor& probabilistic_admitter();

namespace {

using schedule::Admitter;
using schedule::LatencyPrediction;
using schedule::testing::Harness;

TEST(RefusalProbability, GrowsWithThePowerOfSaturation) {
  const auto p = [](double s) { return refusal_probability(s, 5, 300); };
  EXPECT_NEAR(p(.1), .003, 1e-15);
  EXPECT_NEAR(p(.2), .096, 1e-15);
  EXPECT_NEAR(p(.25), .29296875, 1e-15);
  EXPECT_NEAR(p(.3), .729, 1e-12);
  EXPECT_EQ(p(.32), 1);
  EXPECT_EQ(p(9), 1);
}

/// How many of 1000 requests are refused.
int refused(Harness& harness, int32_t priority, std::string_view parameters = "") {
  const auto& admitter = harness.make<Admitter>(probabilistic_admitter(), parameters);
  harness.context.priority = priority;
  int count = 0;
  for (int i = 0; i < 1000; ++i) count += !admitter.admit(harness.context);
  return count;
}

TEST(ProbabilisticAdmitter, RefusesByTheMeanOfTheEndpoints) {
  Harness harness(2);
  for (size_t i = 0; i < 2; ++i) harness.metrics_of(i).updated = TimePoint(Nanos(1));
  harness.metrics_of(0).waiting_queue_size = 2;  // 0.4
  harness.metrics_of(1).kv_cache_usage = 0.08;   // 0.1
  EXPECT_NEAR(refused(harness, -1), 293, 72);    // saturation 0.25, five standard deviations
  EXPECT_EQ(refused(harness, 0), 0);
  EXPECT_EQ(refused(harness, -1, "{k: 1e-9}"), 0);
  EXPECT_EQ(refused(harness, -1, "{queueDepthThreshold: 0.1}"), 1000);
}

TEST(ProbabilisticAdmitter, TakesEndpointsWithoutMetricsForFull) {
  Harness harness(1);
  EXPECT_EQ(refused(harness, -1), 1000);
}

TEST(ProbabilisticAdmitter, AnswersWithTheReason) {
  Harness harness(1);
  harness.context.priority = -1;
  const auto status = harness.make<Admitter>(probabilistic_admitter()).admit(harness.context);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kResourceExhausted);
  EXPECT_EQ(status.error().drop_reason, "rejected-saturated");
}

TEST(ProbabilisticAdmitter, RefusesParametersWithoutMeaning) {
  Harness harness(1);
  for (const auto* name : {"queueDepthThreshold", "kvCacheUtilThreshold", "power", "k"})
    EXPECT_FALSE(harness.try_make(probabilistic_admitter(), "{" + std::string(name) + ": 0}"));
}

/// Two busy endpoints with predictions that miss the objectives.
class SloAdmitter : public ::testing::Test {
 protected:
  SloAdmitter() {
    for (size_t i = 0; i < 2; ++i) {
      harness_.metrics_of(i).running_requests_size = 3;
      harness_.metrics_of(i).kv_cache_usage = 0.5;
      predictions_[i] = {.present = true, .ttft_valid = true, .tpot_valid = false};
    }
    harness_.context.priority = -1;
    harness_.context.headers = {{&slo_, 1}};
  }
  bool admits() { return admitter_.admit(harness_.context).has_value(); }

  Harness harness_{2};
  HeaderField slo_{"X-LLM-D-SLO-TTFT-MS", "100"};
  const Admitter& admitter_ = harness_.make<Admitter>(latency_slo_admitter());
  std::span<LatencyPrediction> predictions_ =
      harness_.provide<LatencyPrediction>("predicted-latency-producer");
};

TEST_F(SloAdmitter, RefusesWhatNobodyCanKeep) {
  const auto status = admitter_.admit(harness_.context);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kResourceExhausted);
  EXPECT_EQ(status.error().drop_reason, "rejected-saturated");
}

TEST_F(SloAdmitter, AdmitsWhatOneEndpointCanKeep) {
  predictions_[1].tpot_valid = true;
  EXPECT_TRUE(admits());
}

TEST_F(SloAdmitter, AdmitsWhereAnEndpointIsIdleOrCold) {
  harness_.metrics_of(1).running_requests_size = 0;
  EXPECT_TRUE(admits());
  harness_.metrics_of(1).running_requests_size = 3;
  EXPECT_FALSE(admits());
  harness_.metrics_of(0).kv_cache_usage = 0.019;
  EXPECT_TRUE(admits());
}

TEST_F(SloAdmitter, AdmitsWhatIsNotPredicted) {
  predictions_[0].present = false;
  EXPECT_FALSE(admits());
  predictions_[1].present = false;
  EXPECT_TRUE(admits());
}

TEST_F(SloAdmitter, AdmitsOtherPrioritiesAndRequestsWithoutObjectives) {
  harness_.context.priority = 0;
  EXPECT_TRUE(admits());
  harness_.context.priority = -1;
  for (const auto* text : {"0", "-5", "soon", "inf", ""}) {
    slo_.value = text;
    EXPECT_TRUE(admits()) << text;
  }
  slo_ = {"x-slo-tpot-ms", "20.5"};
  EXPECT_FALSE(admits());
}

}  // namespace
}  // namespace llmd::plugins
