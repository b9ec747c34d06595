#pragma once

#include "base/clock.h"
#include "fleet/fleet.h"
#include "metric/registry.h"

#include <cstdint>
#include <memory>
#include <string>

namespace llmd::fleet {

/// The pool gauges of spec 04 §2.2, and how often the fleet was full.
/// Threading: refresh() from one control thread; the per-endpoint gauges are computed by whoever
/// renders the page.
class PoolMetrics {
 public:
  /// `pool`: value of the label "name". `stale_after`: older metrics do not count into the
  /// averages.
  PoolMetrics(Fleet& fleet, metric::Registry& registry, std::string pool, Nanos stale_after);

  /// Recomputes averages, standard deviations and the number of endpoints with fresh metrics. Call
  /// every
  /// --refresh-prometheus-metrics-interval. Without fresh endpoints the averages keep their last
  /// value.
  void refresh(TimePoint now);

 private:
  struct Moments {
    metric::Gauge mean;
    metric::Gauge deviation;
  };
  void collect();

  Fleet& fleet_;
  const std::string pool_;
  const Nanos stale_after_;
  Moments kv_usage_, queue_, running_;
  metric::Gauge ready_;
  metric::Family& per_endpoint_;
  metric::Counter refused_;
  uint64_t refused_counted_ = 0;  // touched by collect() only
  SnapshotPtr
      exposed_;  // whose endpoints have a series in per_endpoint_; touched by collect() only
  std::shared_ptr<void> collector_;
};

/// Mean and sample standard deviation (divisor n - 1; 0 for one value), each rounded to two
/// decimals. Requires: n > 0.
struct MeanDeviation {
  double mean;
  double deviation;
};
MeanDeviation mean_deviation(const std::vector<double>& values);

}  // namespace llmd::fleet
