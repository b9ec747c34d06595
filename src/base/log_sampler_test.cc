#include "log_sampler.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace llmd::log {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

class LogSamplerTest : public testing::Test {
 protected:
  /// How many of `n` equal messages at `now` pass.
  int admitted(int n, std::string_view message, int64_t now) {
    int passed = 0;
    for (int i = 0; i < n; ++i) passed += sampler_->admit(message, now);
    return passed;
  }
  std::unique_ptr<LogSampler> sampler_ = std::make_unique<LogSampler>();
};

TEST_F(LogSamplerTest, PassesTheFirstHundredOfASecond) {
  EXPECT_EQ(admitted(100, "m", 0), 100);
  EXPECT_EQ(admitted(99, "m", kSecond - 1), 0);
}

TEST_F(LogSamplerTest, ThenPassesEveryHundredth) {
  EXPECT_EQ(admitted(1000, "m", 0), 100 + 9);
}

TEST_F(LogSamplerTest, CountsAnewEachSecond) {
  admitted(150, "m", 0);
  EXPECT_EQ(admitted(100, "m", kSecond), 100);
}

TEST_F(LogSamplerTest, MessagesDoNotShareTheirShare) {
  admitted(150, "m", 0);
  EXPECT_EQ(admitted(100, "n", 0), 100);
}

}  // namespace
}  // namespace llmd::log
