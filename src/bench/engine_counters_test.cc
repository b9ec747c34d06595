#include "bench/engine_counters.h"

#include <gtest/gtest.h>

namespace llmd::bench {
namespace {

TEST(EngineCounters, AreSummedOverSeries) {
  const auto counters = read_counters(
      "# HELP vllm:request_success_total Finished requests.\n"
      "# TYPE vllm:request_success_total counter\n"
      "vllm:request_success_total{finished_reason=\"stop\",model_name=\"m\"} 3.0\n"
      "vllm:request_success_total{finished_reason=\"le}ngth\",model_name=\"m\"} 4\n"
      "vllm:prefix_cache_hits_total{model_name=\"m\"} 1.5e+03\n"
      "vllm:prefix_cache_queries_total 2000 1700000000000\n"
      "vllm:prefix_cache_queries_created{model_name=\"m\"} 99\n"
      "vllm:request_prefill_kv_computed_tokens_bucket{le=\"1.0\"} 7\n"
      "vllm:request_prefill_kv_computed_tokens_sum{model_name=\"m\"} 21\n"
      "vllm:request_prefill_kv_computed_tokens_count{model_name=\"m\"} 1");
  EXPECT_EQ(counters.requests, 7);
  EXPECT_EQ(counters.cache_hits, 1500);
  EXPECT_EQ(counters.cache_queries, 2000);
  EXPECT_EQ(counters.prefill_tokens, 21);
}

TEST(EngineCounters, AreZeroForAPageWithoutThem) {
  EXPECT_EQ(read_counters("up 1\n").requests, 0);
  EXPECT_EQ(read_counters("").requests, 0);
}

}  // namespace
}  // namespace llmd::bench
