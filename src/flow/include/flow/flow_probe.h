#pragma once

#include "base/clock.h"
#include "base/mutex.h"
#include "flow/outcome.h"
#include "metric/registry.h"
#include "schedule/request_context.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace llmd::flow {

/// When a tenant was last heard of, and how many of its requests wait.
struct Tenant {
  std::atomic<int64_t> used{0};  // nanoseconds of the clock
  std::atomic<int64_t> waiting{0};
};

/// Handles of one combination of labels, of one loop.
struct FlowSeries {
  metric::Gauge queue_size, queue_bytes;
  metric::Histogram enqueue_admitted;  // outcome NotYetFinalized
  std::array<metric::Counter, kOutcomes> requests;
  std::array<metric::Histogram, kOutcomes> queue_duration;
  std::shared_ptr<Tenant> tenant;
};

/// Owns the request metrics of flow control (spec 04 §2.4). A tenant's series go when nothing has
/// been heard of it for long.
/// Threading: any loop; every loop has handles of its own, so a known combination costs a look-up
/// and no lock.
class FlowProbe {
 public:
  FlowProbe(metric::Registry& registry, std::string pool);
  ~FlowProbe();

  /// A request comes to wait, or goes by: its series are there from now on.
  void arrive(const schedule::RequestContext& context, TimePoint now);
  /// It waits from now on, or no longer. `sign`: 1 or -1.
  void wait(const schedule::RequestContext& context, int sign);
  /// It has been let in or refused, so long after it came. `enqueuing`: the part of it until it was
  /// in its queue.
  void end(const schedule::RequestContext& context, Outcome outcome, Nanos waited, Nanos enqueuing);

  /// Drops the series of tenants that have been idle for `idle`.
  void collect(TimePoint now, Nanos idle);

  metric::Histogram cycle;  // dispatch_cycle_duration_seconds

 private:
  struct Families;
  struct Cache;
  FlowSeries& series(const schedule::RequestContext& context);
  FlowSeries make(const schedule::RequestContext& context);
  void add_outcome(FlowSeries& series, const schedule::RequestContext& context, Outcome outcome);

  const std::string pool_;
  std::unique_ptr<Families> families_;
  std::vector<std::unique_ptr<Cache>> caches_;  // by the thread's cell
  std::atomic<uint64_t> epoch_{0};              // changes when series are dropped

  struct Tenants;
  std::unique_ptr<Tenants> tenants_;
};

}  // namespace llmd::flow
