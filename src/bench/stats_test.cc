#include "bench/stats.h"

#include <gtest/gtest.h>

#include <vector>

namespace llmd::bench {
namespace {

TEST(Percentile, InterpolatesBetweenOrderStatistics) {
  const std::vector<double> samples{40, 10, 30, 20};
  EXPECT_DOUBLE_EQ(percentile(samples, 0), 10);
  EXPECT_DOUBLE_EQ(percentile(samples, 50), 25);
  EXPECT_DOUBLE_EQ(percentile(samples, 95), 38.5);
  EXPECT_DOUBLE_EQ(percentile(samples, 100), 40);
}

TEST(Percentile, OfOneSampleIsThatSample) {
  EXPECT_DOUBLE_EQ(percentile(std::vector<double>{7}, 95), 7);
}

TEST(Percentile, OfNothingIsZero) {
  EXPECT_DOUBLE_EQ(percentile({}, 50), 0);
}

TEST(Mean, IsTheArithmeticMean) {
  EXPECT_DOUBLE_EQ(mean(std::vector<double>{1, 2, 6}), 3);
  EXPECT_DOUBLE_EQ(mean({}), 0);
}

}  // namespace
}  // namespace llmd::bench
