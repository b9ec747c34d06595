#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace llmd::sim {

/// Counts by upper bound, plain integers. Threading: one thread. Cost: a linear search, since low
/// buckets dominate.
class Distribution {
 public:
  explicit Distribution(std::span<const double> bounds)
      : bounds_(bounds), counts_(bounds.size() + 1) {}

  void observe(double value) {
    size_t i = 0;
    while (i < bounds_.size() && value > bounds_[i]) ++i;
    ++counts_[i];
    ++count_;
    sum_ += value;
  }

  std::span<const double> bounds() const { return bounds_; }
  std::span<const uint64_t> counts() const {
    return counts_;
  }  // one more than bounds, not cumulative
  uint64_t count() const { return count_; }
  double sum() const { return sum_; }

 private:
  std::span<const double> bounds_;
  std::vector<uint64_t> counts_;
  uint64_t count_ = 0;
  double sum_ = 0;
};

/// 1, 2, 5, 10, 20, 50 and so on up to `most`.
std::vector<double> one_two_five(uint32_t most);

enum class FinishReason : uint8_t {
  kStop,
  kLength,
  kAbort,
  kError,
  kRemoteDecode,
  kCacheThreshold
};
inline constexpr size_t kFinishReasons = 6;
const char* finish_reason_name(FinishReason reason);

/// Everything one simulated engine has counted since it started. Gauges are exact at every moment.
struct Counters {
  explicit Counters(std::span<const double> token_bounds);

  uint32_t running = 0;
  uint32_t waiting = 0;
  uint64_t prompt_tokens = 0;
  uint64_t prompt_tokens_cached = 0;
  uint64_t prompt_tokens_transferred = 0;
  uint64_t generation_tokens = 0;
  uint64_t prefix_cache_queries = 0;
  uint64_t prefix_cache_hits = 0;
  uint64_t rejected_queue_full = 0;
  uint64_t finished[kFinishReasons] = {};

  Distribution time_to_first_token, inter_token_latency, time_per_output_token;
  Distribution e2e_latency, queue_time, inference_time, prefill_time, decode_time;
  Distribution request_prompt_tokens, request_generation_tokens, request_max_generation_tokens;
  Distribution request_params_max_tokens, prefill_kv_computed_tokens, request_params_n;
};

}  // namespace llmd::sim
