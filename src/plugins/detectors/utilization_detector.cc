#include "base/limits.h"
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

constexpr std::string_view kCountAsFull = "saturated";
constexpr std::string_view kLeaveOut = "ignore";

struct Params {
  int64_t queue_depth = 5;
  double kv_cache_util = 0.8;
  Nanos staleness = std::chrono::milliseconds(200);
  std::string staleness_policy{kCountAsFull};
  double headroom = 0;
  double hysteresis = 0;
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
      plugin::field("stalenessPolicy", &Params::staleness_policy, "",
                    "Whether endpoints without fresh metrics count as full or are left out of the "
                    "mean; with all of them left out the pool is idle.")
          .one_of({kCountAsFull, kLeaveOut}),
      plugin::field("headroom", &Params::headroom, "",
                    "As a filter: by which fraction endpoints may exceed the thresholds.")
          .min(0),
      plugin::field("hysteresis", &Params::hysteresis, "",
                    "An endpoint that was full stays so until it is below its thresholds by this "
                    "fraction of them; against gates that open and close with every scrape.")
          .min(0)
          .max(0.9),
  };
  return params;
}

/// Which endpoints are full, of those that have a memory of it. Generations by slot; a race of two
/// loops costs one call its memory. Threading: any.
class FullEndpoints {
 public:
  /// Whether the endpoint counts as full: it is, or it was and has not become `empty_enough`.
  bool note(const fleet::Endpoint& endpoint, bool is_full, bool empty_enough) {
    auto& memory = generations_[endpoint.slot()];
    const bool was = memory.load(std::memory_order_relaxed) == endpoint.generation();
    const bool full = is_full || (was && !empty_enough);
    if (full != was) memory.store(full ? endpoint.generation() : 0, std::memory_order_relaxed);
    return full;
  }

 private:
  std::array<std::atomic<uint64_t>, limits::kEndpointsMax> generations_{};
};

/// The most requests that an endpoint was seen running: so many it has room for at once.
/// Threading: any.
class RunningPeaks {
 public:
  int64_t note(const fleet::Endpoint& endpoint, int64_t running) {
    auto& peak = peaks_[endpoint.slot()];
    if (peak.generation.load(std::memory_order_relaxed) != endpoint.generation()) {
      peak.running.store(running, std::memory_order_relaxed);
      peak.generation.store(endpoint.generation(), std::memory_order_relaxed);
    }
    const int64_t most = std::max(running, peak.running.load(std::memory_order_relaxed));
    if (most == running) peak.running.store(running, std::memory_order_relaxed);
    return most;
  }

 private:
  struct Peak {
    std::atomic<uint64_t> generation{0};
    std::atomic<int64_t> running{0};
  };
  std::array<Peak, limits::kEndpointsMax> peaks_{};
};

/// When each endpoint was last found without fresh metrics, by slot: a reading of the pool is one
/// call a stage, and an endpoint may be in several. Threading: any.
class StaleEndpoints {
 public:
  StaleEndpoints() {
    for (auto& at : at_) at.store(kFresh, std::memory_order_relaxed);
  }
  void note(const fleet::Endpoint& endpoint, bool stale, TimePoint now) {
    auto& at = at_[endpoint.slot()];
    const int64_t then = stale ? now.time_since_epoch().count() : kFresh;
    if (at.load(std::memory_order_relaxed) != then) at.store(then, std::memory_order_relaxed);
  }
  /// So many were asked about. None: no endpoint is there.
  void end_call(size_t endpoints, TimePoint now) {
    const int64_t at = now.time_since_epoch().count();
    asked_.store(at, std::memory_order_relaxed);
    if (endpoints == 0) from_.store(at + 1, std::memory_order_relaxed);
  }
  /// Those that nobody asks about any more have gone.
  int64_t count() const {
    const int64_t since = std::max(from_.load(std::memory_order_relaxed),
                                   asked_.load(std::memory_order_relaxed) - kGone.count());
    return std::ranges::count_if(
        at_, [&](const auto& at) { return at.load(std::memory_order_relaxed) >= since; });
  }

 private:
  static constexpr int64_t kFresh = INT64_MIN;
  static constexpr Nanos kGone = std::chrono::seconds(1);
  std::array<std::atomic<int64_t>, limits::kEndpointsMax> at_;
  std::atomic<int64_t> asked_{0};
  std::atomic<int64_t> from_{INT64_MIN + 1};
};

/// What all calls share, also those of a reloaded instance.
struct Shared {
  StaleEndpoints stale;
  std::atomic<int64_t> next_log{INT64_MIN};  // nanoseconds since the clock's epoch
  FullEndpoints full;                        // for saturation
  FullEndpoints left_out;                    // by the filter
  RunningPeaks peaks;
};

class UtilizationDetector final : public schedule::SaturationDetector, public schedule::Filter {
 public:
  UtilizationDetector(Params p, const plugin::Context& context)
      : params_(std::move(p)),
        leaves_out_stale_(params_.staleness_policy == kLeaveOut),
        shared_(context.state.get<Shared>(context.name, [] { return new Shared; })) {
    if (params_.headroom > 1)
      log::warn("headroom above 1 lets endpoints exceed the thresholds more than twofold",
                {{"plugin", context.name}, {"headroom", params_.headroom}});
    const std::array<std::string_view, 1> labels = {context.name};
    const auto gauge = context.metrics.family(kStaleEndpoints).gauge(labels);
    collector_ = context.metrics.on_collect(
        [gauge, shared = shared_] { gauge.set(static_cast<double>(shared->stale.count())); });
  }

  double saturation(std::span<const Candidate> candidates, TimePoint now) const override {
    return mean(candidates, now, [](const Candidate& c) { return c.metrics.waiting_queue_size; });
  }

  /// Requests that are neither running nor waiting by the metrics count as waiting, as far as the
  /// endpoint has not been seen running so many.
  double pressure(std::span<const Candidate> candidates, TimePoint now) const override {
    return mean(candidates, now, [this](const Candidate& c) {
      const auto& seen = c.metrics;
      const int64_t sent = c.endpoint->open_requests.load(std::memory_order_relaxed);
      const int64_t room = shared_->peaks.note(*c.endpoint, seen.running_requests_size);
      return std::max(seen.waiting_queue_size, sent - room);
    });
  }

  double step(size_t endpoints, int64_t) const override {
    return endpoints == 0
               ? 0
               : 1 / static_cast<double>(params_.queue_depth) / static_cast<double>(endpoints);
  }

  size_t filter(schedule::RequestContext& context, std::span<uint32_t> selected) const override {
    const TimePoint now = context.clock.now();
    size_t kept = 0;
    for (const uint32_t i : selected)
      if (has_room(context.candidates[i], now)) selected[kept++] = i;
    // With nobody left, nothing was overwritten: all stay.
    return kept > 0 ? kept : selected.size();
  }

 private:
  bool is_stale(const fleet::EndpointMetrics& metrics, TimePoint now) const {
    if (!metrics.ever_updated()) return true;
    const Nanos slower = metrics.interval > params_.staleness ? metrics.interval : Nanos(0);
    return now - metrics.updated > params_.staleness + slower;
  }

  /// `waiting_of` says how many requests wait at a candidate.
  double mean(std::span<const Candidate> candidates, TimePoint now, auto waiting_of) const {
    double sum = 0;
    int64_t stale = 0;
    for (const auto& candidate : candidates) {
      const bool unknown = is_stale(candidate.metrics, now);
      shared_->stale.note(*candidate.endpoint, unknown, now);
      if (unknown)
        ++stale;
      else
        sum += utilization(candidate, waiting_of(candidate));
    }
    shared_->stale.end_call(candidates.size(), now);
    if (stale > 0) report(stale, candidates.size(), now);
    if (candidates.empty()) return 1;
    const auto all = static_cast<double>(candidates.size());
    const auto unknown = static_cast<double>(stale);
    if (!leaves_out_stale_) return (sum + unknown) / all;
    return all > unknown ? sum / (all - unknown) : 0;
  }

  double utilization(const Candidate& candidate, int64_t waiting) const {
    const double used =
        std::max(static_cast<double>(waiting) / static_cast<double>(params_.queue_depth),
                 candidate.metrics.kv_cache_usage / params_.kv_cache_util);
    if (params_.hysteresis == 0) return used;
    const bool empty_enough = used < 1 - params_.hysteresis;
    return shared_->full.note(*candidate.endpoint, used >= 1, empty_enough) ? std::max(used, 1.0)
                                                                            : used;
  }

  bool is_below(const fleet::EndpointMetrics& metrics, double share) const {
    return static_cast<double>(metrics.waiting_queue_size) <
               static_cast<double>(params_.queue_depth) * share &&
           metrics.kv_cache_usage < params_.kv_cache_util * share;
  }

  bool has_room(const Candidate& candidate, TimePoint now) const {
    const auto& metrics = candidate.metrics;
    if (is_stale(metrics, now)) return false;
    const double limit = 1 + params_.headroom;
    const bool is_full = !is_below(metrics, limit);
    if (params_.hysteresis == 0) return !is_full;
    return !shared_->left_out.note(*candidate.endpoint, is_full,
                                   is_below(metrics, limit - params_.hysteresis));
  }

  void report(int64_t stale, size_t endpoints, TimePoint now) const {
    const int64_t at = now.time_since_epoch().count();
    int64_t next = shared_->next_log.load(std::memory_order_relaxed);
    if (at < next || !shared_->next_log.compare_exchange_strong(next, at + kLogInterval.count(),
                                                                std::memory_order_relaxed))
      return;
    log::warn(leaves_out_stale_ ? "endpoints without fresh metrics are left out of saturation"
                                : "endpoints without fresh metrics count as saturated",
              {{"detector", name()}, {"stale", stale}, {"endpoints", endpoints}});
  }

  const Params params_;
  const bool leaves_out_stale_;
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
