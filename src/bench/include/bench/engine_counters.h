#pragma once

#include <string_view>

namespace llmd::bench {

/// The counters of a vLLM metrics page that the experiment reads, each summed over its series.
struct EngineCounters {
  double requests = 0;        // vllm:request_success_total
  double cache_hits = 0;      // vllm:prefix_cache_hits_total, tokens
  double cache_queries = 0;   // vllm:prefix_cache_queries_total, tokens
  double prefill_tokens = 0;  // vllm:request_prefill_kv_computed_tokens_sum

  EngineCounters operator-(const EngineCounters& earlier) const {
    return {requests - earlier.requests, cache_hits - earlier.cache_hits,
            cache_queries - earlier.cache_queries, prefill_tokens - earlier.prefill_tokens};
  }
};

/// Reads a Prometheus text page. Families that the page lacks count as 0.
EngineCounters read_counters(std::string_view page);

}  // namespace llmd::bench
