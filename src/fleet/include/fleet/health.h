#pragma once

#include "base/clock.h"
#include "metric/registry.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>

namespace llmd::fleet {

class Endpoint;
class Fleet;
struct Snapshot;

/// Whether an endpoint may be chosen, as far as its answers tell. Healthy, ejected for a back-off,
/// or half-open: the back-off is over and the next request sent there is the probe that decides.
/// While the probe is out the endpoint counts as ejected again, for one more back-off at most.
/// Threading: any; one relaxed load of a healthy endpoint.
class EndpointHealth {
 public:
  enum class State : uint8_t { kHealthy, kEjected, kHalfOpen };

  bool healthy() const { return retry_at_.load(std::memory_order_relaxed) == 0; }
  State state(TimePoint now) const {
    const int64_t at = retry_at_.load(std::memory_order_relaxed);
    return at == 0                               ? State::kHealthy
           : now.time_since_epoch().count() < at ? State::kEjected
                                                 : State::kHalfOpen;
  }
  /// Until the next probe; 0 when there is nothing to wait for.
  Nanos wait(TimePoint now) const;
  /// Ejections in a row, without an answer between them.
  uint32_t ejections() const { return ejections_.load(std::memory_order_relaxed); }
  /// Takes over what is known of the same endpoint under other labels.
  void carry_over(const EndpointHealth& earlier);

 private:
  friend class Ejector;
  std::atomic<int64_t> retry_at_{0};  // of the clock, in ns; 0: healthy
  std::atomic<uint32_t> ejections_{0};
  std::atomic<uint32_t> strikes_{0};  // 5xx answers and time-outs in a row
  std::atomic<bool> probing_{false};
};

std::string_view health_name(EndpointHealth::State state);

struct EjectionOptions {
  bool enabled = true;
  /// 5xx answers and time-outs in a row that eject; a failed connection does at once.
  uint32_t strikes = 3;
  Nanos backoff_min =
      std::chrono::seconds(1);  // of the first ejection; doubled by each further one
  Nanos backoff_max = std::chrono::seconds(30);
};

/// Passive health checks: takes endpoints that cannot be reached, answer with 5xx or keep requests
/// waiting beyond their time-outs out of the choice for a while, at most half of the pool, and
/// shows it in the metrics. 4xx answers are the client's doing and count as answers. Threading:
/// any, without locks; what it logs happens at changes only. Lifetime: the fleet and the registry
/// outlive it.
class Ejector {
 public:
  enum class Cause : uint8_t { kConnect, kStatus5xx, kTimeout };

  Ejector(Fleet& fleet, metric::Registry& metrics, EjectionOptions options);
  ~Ejector();

  /// A request goes to `endpoint`; of a half-open one it becomes the probe.
  void sent(Endpoint& endpoint, TimePoint now) const;
  /// An answer below 500 has come: whatever was held against the endpoint is forgotten.
  void answered(Endpoint& endpoint) const;
  /// `pool`: who counts as the pool that at least half of stays in the choice.
  void failed(Endpoint& endpoint, Cause cause, const Snapshot& pool, TimePoint now) const;

 private:
  struct Gauges;
  Nanos backoff(uint32_t ejections) const;

  const EjectionOptions options_;
  std::array<metric::Counter, 3> ejections_;  // by cause
  metric::Counter withheld_;
  std::unique_ptr<Gauges> gauges_;
};

}  // namespace llmd::fleet
