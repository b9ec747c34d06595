#include "base/rng.h"

#include <gtest/gtest.h>

#include <array>

namespace llmd {
namespace {

TEST(Rng, RepeatsForOneSeed) {
  Rng a(42), b(42), c(43);
  bool differs = false;
  for (int i = 0; i < 100; ++i) {
    const uint64_t value = a.next();
    EXPECT_EQ(value, b.next());
    differs |= value != c.next();
  }
  EXPECT_TRUE(differs);
}

TEST(Rng, UniformStaysInItsInterval) {
  Rng rng(1);
  double sum = 0;
  for (int i = 0; i < 100'000; ++i) {
    const double value = rng.uniform();
    ASSERT_GE(value, 0);
    ASSERT_LT(value, 1);
    sum += value;
  }
  EXPECT_NEAR(sum / 100'000, 0.5, 0.01);
}

TEST(Rng, BelowHitsEachValueAboutEquallyOften) {
  Rng rng(2);
  std::array<int, 7> hits{};
  for (int i = 0; i < 70'000; ++i) ++hits.at(rng.below(7));
  for (const int n : hits) EXPECT_NEAR(n, 10'000, 500);
}

TEST(Rng, BelowOneIsZero) {
  Rng rng(3);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(rng.below(1), 0u);
}

TEST(Rng, SystemSeedsDiffer) {
  EXPECT_NE(random_seed(), random_seed());
}

}  // namespace
}  // namespace llmd
