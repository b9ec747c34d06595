#include "response_meter.h"

#include <gtest/gtest.h>

namespace llmd::route {
namespace {

/// Counts every chunk as an event.
class FakeScan final : public request::UsageScan {
 public:
  void feed(std::string_view) override { ++events_; }
  void finish() override {}
  void report(request::Usage usage) { usage_ = usage; }
};

class ResponseMeterTest : public ::testing::Test {
 protected:
  ManualClock clock_;
  FakeScan scan_;
  ResponseMeter meter_{clock_.now(), clock_.now(), true, &scan_, nullptr};
};

TEST_F(ResponseMeterTest, CountsTheEventsOfAnAnswerThatBrokeOff) {
  for (int i = 0; i < 7; ++i) meter_.chunk("data: {}", clock_);
  EXPECT_EQ(meter_.usage().completion_tokens, 0);
  EXPECT_EQ(meter_.usage_so_far().completion_tokens, 7);
  EXPECT_FALSE(meter_.usage_so_far().present);
}

TEST_F(ResponseMeterTest, BelievesWhatTheAnswerSaysOfItself) {
  meter_.chunk("data: {}", clock_);
  scan_.report({.prompt_tokens = 5, .completion_tokens = 40, .present = true});
  EXPECT_EQ(meter_.usage_so_far().completion_tokens, 40);
  EXPECT_EQ(meter_.usage_so_far().prompt_tokens, 5);
}

TEST_F(ResponseMeterTest, KnowsNothingWithoutAReader) {
  EXPECT_EQ(ResponseMeter().usage_so_far().completion_tokens, 0);
}

}  // namespace
}  // namespace llmd::route
