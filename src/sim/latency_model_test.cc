#include "sim/latency_model.h"

#include <gtest/gtest.h>

namespace llmd::sim {
namespace {

using namespace std::chrono_literals;

LatencyConfig vector_config() {
  LatencyConfig c;
  c.prefill_overhead = 30ms;
  c.prefill_time_per_token = 250us;
  c.inter_token_latency = 12ms;
  c.kv_cache_transfer_time_per_token = 3us;
  c.time_factor_under_load = 2;
  return c;
}

TEST(LatencyModel, MatchesExactVectors) {
  const LatencyConfig c = vector_config();
  Draws draws(1, 1);
  EXPECT_EQ(prefill_time(c, load_factor(c, 1, 16), 1000, 600, draws), 130ms);
  EXPECT_EQ(prefill_time(c, load_factor(c, 16, 16), 1000, 600, draws), 260ms);
  EXPECT_EQ(prefill_time(c, load_factor(c, 8, 16), 1000, 600, draws), Nanos(190666667));
  EXPECT_EQ(inter_token_time(c, load_factor(c, 8, 16), draws), 17600us);
  EXPECT_EQ(transfer_time(c, 1000, draws), 3ms);
  EXPECT_EQ(transfer_time(c, 100, draws), 300us);
}

TEST(LatencyModel, PrefersConstantFormWhenSet) {
  LatencyConfig c = vector_config();
  c.time_to_first_token = 100ms;
  c.kv_cache_transfer_latency = 2ms;
  Draws draws(1, 1);
  EXPECT_EQ(prefill_time(c, 1.5, 1000, 0, draws), 150ms);
  EXPECT_EQ(transfer_time(c, 1000, draws), 2ms);
  c.calculator = Calculator::kPerToken;
  EXPECT_EQ(prefill_time(c, 1, 1000, 0, draws), 280ms);
  EXPECT_EQ(transfer_time(c, 1000, draws), 3ms);
  c.calculator = Calculator::kConstant;
  c.time_to_first_token = 0ms;
  EXPECT_EQ(prefill_time(c, 1, 1000, 0, draws), 0ms);
}

TEST(LatencyModel, FactorIsNeverBelowOne) {
  const LatencyConfig c = vector_config();
  EXPECT_EQ(load_factor(c, 0, 16), 1);
  EXPECT_EQ(load_factor(c, 5, 1), 1);
  EXPECT_EQ(load_factor(c, 16, 16), 2);
}

TEST(LatencyModel, ClampsDeviates) {
  LatencyConfig c;
  c.inter_token_latency = 10ms;
  c.inter_token_latency_std_dev = 3ms;
  Draws draws(7, 0);
  double sum = 0;
  for (int i = 0; i < 20000; ++i) {
    const Nanos d = inter_token_time(c, 1, draws);
    EXPECT_GE(d, 3ms);
    EXPECT_LE(d, 17ms);
    sum += millis(d);
  }
  EXPECT_NEAR(sum / 20000, 10, 0.15);
}

TEST(Draws, DependOnlyOnSeedStreamAndPosition) {
  Draws a(1, 5), b(1, 5), other(1, 6);
  Draws between = a.sub(1);
  const uint64_t first = a.next();
  between.next();
  EXPECT_EQ(first, b.next());
  EXPECT_NE(first, other.next());
  EXPECT_EQ(a.next(), b.next());
}

}  // namespace
}  // namespace llmd::sim
