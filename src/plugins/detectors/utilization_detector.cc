#include "base/log.h"
#include "plugin/registry.h"
#include "schedule/interfaces.h"

#include <algorithm>
#include <array>
#include <atomic>

namespace llmd::plugins {
namespace {

using schedule::Candidate;

constexpr Nanos kLogInterval = std::chrono::seconds(30);

const metric::Definition kStaleEndpoints = {
    .name = "llm_d_epp_flow_control_stale_endpoints",
    .kind = metric::Kind::kGauge,
    .help = "Endpoints without fresh metrics when saturation was last computed.",
    .labels = {"detector"},
    .buckets = {},
    .twins = {},
};

struct Params {
  int64_t queue_depth = 5;
  double kv_cache_util = 0.8;
  Nanos staleness = std::chrono::milliseconds(200);
  double headroom = 0;
};

const plugin::Params<Params>& table() {
  static const plugin::Params<Params> params = {
      plugin::field("queueDepthThreshold", &Params::queue_depth, "requests",
                    "Waiting requests that make an endpoint full.")
          .positive(),
      plugin::field("kvCacheUtilThreshold", &Params::kv_cache_util, "",
                    "Fraction of the KV cache in use that makes an endpoint full.")
          .positive()
          .max(1),
      plugin::field("metricsStalenessThreshold", &Params::staleness, "",
                    "Age from which on an endpoint's metrics are not believed and it counts as "
                    "full; where endpoints are scraped more slowly, their interval comes on top.")
          .positive(),
      plugin::field("headroom", &Params::headroom, "",
                    "As a filter: by which fraction endpoints may exceed the thresholds.")
          .min(0),
  };
  return params;
}

/// What all calls share, also those of a reloaded instance.
struct Shared {
  std::atomic<int64_t> stale{0};
  std::atomic<int64_t> next_log{INT64_MIN};  // nanoseconds since the clock's epoch
};

class UtilizationDetector final : public schedule::SaturationDetector, public schedule::Filter {
 public:
  UtilizationDetector(Params p, const plugin::Context& context)
      : params_(p), shared_(context.state.get<Shared>(context.name, [] { return new Shared; })) {
    if (p.headroom > 1)
      log::warn("headroom above 1 lets endpoints exceed the thresholds more than twofold",
                {{"plugin", context.name}, {"headroom", p.headroom}});
    const std::array<std::string_view, 1> labels = {context.name};
    const auto gauge = context.metrics.family(kStaleEndpoints).gauge(labels);
    collector_ = context.metrics.on_collect([gauge, shared = shared_] {
      gauge.set(static_cast<double>(shared->stale.load(std::memory_order_relaxed)));
    });
  }

  double saturation(std::span<const Candidate> candidates, TimePoint now) const override {
    double sum = 0;
    int64_t stale = 0;
    for (const auto& candidate : candidates) {
      if (is_stale(candidate.metrics, now)) {
        ++stale;
        sum += 1;
      } else {
        sum += utilization(candidate.metrics);
      }
    }
    shared_->stale.store(stale, std::memory_order_relaxed);
    if (stale > 0) report(stale, candidates.size(), now);
    return candidates.empty() ? 1.0 : sum / static_cast<double>(candidates.size());
  }

  size_t filter(schedule::RequestContext& context, std::span<uint32_t> selected) const override {
    const TimePoint now = context.clock.now();
    size_t kept = 0;
    for (const uint32_t i : selected)
      if (has_room(context.candidates[i].metrics, now)) selected[kept++] = i;
    // With nobody left, nothing was overwritten: all stay.
    return kept > 0 ? kept : selected.size();
  }

 private:
  bool is_stale(const fleet::EndpointMetrics& metrics, TimePoint now) const {
    if (!metrics.ever_updated()) return true;
    const Nanos slower = metrics.interval > params_.staleness ? metrics.interval : Nanos(0);
    return now - metrics.updated > params_.staleness + slower;
  }

  double utilization(const fleet::EndpointMetrics& metrics) const {
    return std::max(
        static_cast<double>(metrics.waiting_queue_size) / static_cast<double>(params_.queue_depth),
        metrics.kv_cache_usage / params_.kv_cache_util);
  }

  bool has_room(const fleet::EndpointMetrics& metrics, TimePoint now) const {
    const double slack = 1 + params_.headroom;
    return !is_stale(metrics, now) &&
           static_cast<double>(metrics.waiting_queue_size) <
               static_cast<double>(params_.queue_depth) * slack &&
           metrics.kv_cache_usage < params_.kv_cache_util * slack;
  }

  void report(int64_t stale, size_t endpoints, TimePoint now) const {
    const int64_t at = now.time_since_epoch().count();
    int64_t next = shared_->next_log.load(std::memory_order_relaxed);
    if (at < next || !shared_->next_log.compare_exchange_strong(next, at + kLogInterval.count(),
                                                                std::memory_order_relaxed))
      return;
    log::warn("endpoints without fresh metrics count as saturated",
              {{"detector", name()}, {"stale", stale}, {"endpoints", endpoints}});
  }

  const Params params_;
  const std::shared_ptr<Shared> shared_;
  std::shared_ptr<void> collector_;
};

}  // namespace

const plugin::Descriptor& utilization_detector() {
  static const auto descriptor = plugin::describe<UtilizationDetector>(
      {.type = "utilization-detector",
       .kind = "saturation detector",
       .summary =
           "The pool is as full as its endpoints are on average, each by its queue or its KV "
           "cache, whichever is fuller; as a filter it drops full and unknown endpoints."},
      table());
  return descriptor;
}

}  // namespace llmd::plugins
