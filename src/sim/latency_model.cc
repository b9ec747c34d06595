#include "sim/latency_model.h"

#include <algorithm>
#include <cmath>

namespace llmd::sim {
namespace {

Nanos sample(double mean_ns, Nanos std_dev, Draws& draws) {
  double value = mean_ns;
  if (std_dev.count() > 0) {
    value = draws.normal(mean_ns, static_cast<double>(std_dev.count()));
    value = std::clamp(value, 0.3 * mean_ns, 1.7 * mean_ns);
  }
  return Nanos(std::llround(value));
}

double ns(Nanos d) {
  return static_cast<double>(d.count());
}

/// kAuto means the constant form, unless that form is unset.
bool uses_constant(Calculator calculator, Nanos mean, Nanos std_dev) {
  if (calculator != Calculator::kAuto) return calculator == Calculator::kConstant;
  return mean.count() != 0 || std_dev.count() != 0;
}

}  // namespace

double load_factor(const LatencyConfig& c, uint32_t running, uint32_t max_num_seqs) {
  if (max_num_seqs <= 1 || running <= 1) return 1.0;
  return 1.0 + (c.time_factor_under_load - 1.0) * (running - 1) / (max_num_seqs - 1);
}

Nanos prefill_time(const LatencyConfig& c, double factor, uint32_t prompt, uint32_t cached,
                   Draws& draws) {
  if (uses_constant(c.calculator, c.time_to_first_token, c.time_to_first_token_std_dev))
    return sample(ns(c.time_to_first_token) * factor, c.time_to_first_token_std_dev, draws);
  const double computed = prompt - std::min(prompt, cached);
  return sample((ns(c.prefill_overhead) + computed * ns(c.prefill_time_per_token)) * factor,
                c.prefill_time_std_dev, draws);
}

Nanos transfer_time(const LatencyConfig& c, uint32_t prompt, Draws& draws) {
  if (uses_constant(c.calculator, c.kv_cache_transfer_latency, c.kv_cache_transfer_latency_std_dev))
    return sample(ns(c.kv_cache_transfer_latency), c.kv_cache_transfer_latency_std_dev, draws);
  return sample(prompt * ns(c.kv_cache_transfer_time_per_token), c.kv_cache_transfer_time_std_dev,
                draws);
}

Nanos inter_token_time(const LatencyConfig& c, double factor, Draws& draws) {
  return sample(ns(c.inter_token_latency) * factor, c.inter_token_latency_std_dev, draws);
}

}  // namespace llmd::sim
