#pragma once

#include "base/clock.h"
#include "base/mutex.h"
#include "metric/registry.h"
#include "schedule/request_context.h"

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace llmd::flow {

/// A priority band and whether somebody waits in it for the saturation to fall below its ceiling.
struct Claim {
  int32_t priority = 0;
  double ceiling = 1;
  bool waits = false;
};

/// How many of `evictable` running requests have to give way for the saturation to reach the
/// ceiling, at most two at once (spec 03 §9.3). Each of the `in_flight` requests counts alike.
size_t revocations_needed(double saturation, double ceiling, int64_t in_flight, size_t evictable);

/// Takes running requests of negative priority back from their endpoints when more important ones
/// cannot be placed: the least important first, and of those the one sent last, which has the least
/// to lose. A revoked request goes active → revoking → cooling → gone:
///
///   revoking  its stream has not ended yet; after 10 s it is given up, and counted
///   cooling   its place is free, but the detector may not know it yet
///
/// As long as there is a request in either state, nothing more is revoked.
///
/// Threading: any. A mutex is taken for requests of negative priority only, for O(log n).
/// Lifetime: outlives configurations, and every request that it tracks.
class Evictor {
 public:
  Evictor(metric::Registry& metrics, const Clock& clock, std::string pool);
  ~Evictor();
  Evictor(const Evictor&) = delete;
  Evictor& operator=(const Evictor&) = delete;

  /// A request with its endpoint. Trivially copyable, so it lives in the request's arena.
  struct Running {
    uint64_t id = 0;  // 0: none
    int32_t priority = 0;
    TimePoint sent{};
  };
  /// From now on the request counts, and may be revoked by `evict` if its priority is negative.
  Running track(int32_t priority, schedule::Signal evict);
  /// The request has ended, or has left its endpoint. Empties `running`; confirms a revocation.
  void untrack(Running& running);

  /// Tokens of the prompt and of the answer that a revoked request had used up.
  void count_spent(int32_t priority, int64_t prompt, int64_t output) const;

  /// Dispatch has stopped at the first of `claims`, which are in descending order of priority:
  /// makes room for the first of them that can have some. `lag`: how long after its end a request
  /// is still in the saturation. Returns how many requests were revoked.
  size_t reclaim(double saturation, std::span<const Claim> claims, Nanos lag);

  int64_t in_flight() const { return in_flight_.load(std::memory_order_relaxed); }

 private:
  struct Earlier {
    bool operator()(const Running& a, const Running& b) const;
  };
  struct Revocation {
    uint64_t id;
    TimePoint issued;
    Nanos lag;
    double credit;                     // saturation that it takes away
    std::optional<TimePoint> free_at;  // set: its stream has ended
  };

  std::vector<schedule::Signal> revoke(double saturation, const Claim& claim, Nanos lag)
      LLMD_REQUIRES(mutex_);
  void advance(TimePoint now) LLMD_REQUIRES(mutex_);
  double pending() const LLMD_REQUIRES(mutex_);
  void collect();

  const Clock& clock_;
  const std::string pool_;
  metric::Family& issued_;
  metric::Family& spent_;
  metric::Counter confirmed_;
  metric::Counter timed_out_;
  metric::Histogram confirmation_;
  metric::Gauge target_gauge_;
  metric::Gauge pending_gauge_;

  std::atomic<uint64_t> last_id_{0};
  std::atomic<int64_t> in_flight_{0};
  mutable Mutex mutex_;
  std::map<Running, schedule::Signal, Earlier> evictable_ LLMD_GUARDED_BY(mutex_);
  std::vector<Revocation> revocations_ LLMD_GUARDED_BY(mutex_);
  double target_ LLMD_GUARDED_BY(mutex_) = 0;  // saturation to take away, at the last decision
  std::shared_ptr<void> collector_;
};

}  // namespace llmd::flow
