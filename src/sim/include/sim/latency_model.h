#pragma once

#include "base/clock.h"
#include "sim/draws.h"

#include <cstdint>

namespace llmd::sim {

enum class Calculator : uint8_t { kAuto, kConstant, kPerToken };

/// How long a simulated server takes. All zero: it answers at once.
struct LatencyConfig {
  Calculator calculator = Calculator::kAuto;
  Nanos time_to_first_token{0}, time_to_first_token_std_dev{0};
  Nanos inter_token_latency{0}, inter_token_latency_std_dev{0};
  Nanos kv_cache_transfer_latency{0}, kv_cache_transfer_latency_std_dev{0};
  Nanos prefill_overhead{0}, prefill_time_per_token{0}, prefill_time_std_dev{0};
  Nanos kv_cache_transfer_time_per_token{0}, kv_cache_transfer_time_std_dev{0};
  Nanos time_to_generate_image{0}, time_to_generate_image_std_dev{0};
  double time_factor_under_load = 1.0;

  bool operator==(const LatencyConfig&) const = default;
};

/// Delays in model time, kept to the nanosecond. A deviate is normal, clamped to 0.3 to 1.7 times
/// its mean. Threading: any.

/// 1 + (F - 1)(running - 1) / (max_num_seqs - 1), never below 1; 1 where max_num_seqs is 1.
double load_factor(const LatencyConfig& c, uint32_t running, uint32_t max_num_seqs);

/// From the start of a sequence to its first token, where `cached` of its `prompt` tokens need no
/// computation.
Nanos prefill_time(const LatencyConfig& c, double factor, uint32_t prompt, uint32_t cached,
                   Draws& draws);

/// What replaces prefill_time when another server computed the prompt: the transfer of its KV
/// cache. Load does not matter.
Nanos transfer_time(const LatencyConfig& c, uint32_t prompt, Draws& draws);

/// Between two tokens of one sequence.
Nanos inter_token_time(const LatencyConfig& c, double factor, Draws& draws);

}  // namespace llmd::sim
