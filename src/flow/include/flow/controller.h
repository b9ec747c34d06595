#pragma once

#include "base/clock.h"
#include "base/mutex.h"
#include "flow/drain_rate.h"
#include "flow/flow_probe.h"
#include "flow/gate.h"
#include "flow/queues.h"
#include "flow/settings.h"
#include "metric/registry.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace llmd::flow {

class ControllerGauges;

/// Flow control of one pool: lets requests in while there is room and nothing waits before them,
/// and keeps the others in order until there is. Outlives configurations; what waits keeps its
/// place when one follows another.
///
/// A request is let in by its own loop with pass(), or is handed over and comes to the dispatcher:
/// run(), which one thread calls whenever it is woken or its alarm rings. A turn queues what was
/// handed over, refuses what has waited too long, reads how full the pool is and lets in, in order,
/// as much as there is room for. Nothing runs while nothing waits.
///
/// Threading: pass(), hand_over(), abandon(), made_room(): request loops; run(): the dispatcher;
/// the rest: control threads.
class Controller {
 public:
  /// How often idle flows and bands, and the series of idle tenants, are looked for.
  static constexpr Nanos kCollectInterval = std::chrono::minutes(5);
  /// A turn gives up so many at most, which takes less than a millisecond; the next ones follow.
  static constexpr size_t kExpiredMost = 1000;

  Controller(const Clock& clock, metric::Registry& metrics, const std::string& pool);
  ~Controller();
  Controller(const Controller&) = delete;
  Controller& operator=(const Controller&) = delete;

  struct Host {
    std::function<void()> wake;        // have run() called soon; from any thread
    std::function<void(Nanos)> alarm;  // have it called after this, in place of the alarm before;
                                       // from within run()
  };
  /// Who calls run(). Once, before the first request.
  void attach(Host host);
  /// Follows the endpoints of `fleet`. Once; the fleet lives longer.
  void follow(fleet::Fleet& fleet);
  void set_pool(fleet::SnapshotPtr pool);
  void configure(Settings settings);
  /// Lets go of endpoints and of what the settings keep. No request comes any more, and run() is
  /// not called again.
  void retire();
  void provision(std::span<const int32_t> priorities);
  /// Who takes running requests back in this pool, for settings and hooks; made at the first call.
  std::shared_ptr<Evictor> evictor();

  /// Lets a request in on its own loop: what it has reserved, to be given to gate().settle().
  /// Nothing: it has to wait.
  std::optional<uint64_t> pass(int32_t priority, const schedule::SaturationDetector& detector,
                               int64_t prompt_tokens, TimePoint now);
  /// Gives a new waiter to the dispatcher, which finishes it and then calls its `resume`.
  void hand_over(Waiter& waiter);
  /// The request goes away. True: it will be deleted; false: it is finished, and the caller's.
  bool abandon(Waiter& waiter);
  /// A request has left the pool.
  void made_room() {
    if (waiting_.load(std::memory_order_relaxed) > 0) wake();
  }

  /// One turn of the dispatcher.
  void run();

  Gate& gate() { return gate_; }
  FlowProbe& probe() { return probe_; }
  size_t waiting() const { return waiting_.load(std::memory_order_relaxed); }
  /// Shows what waits. Holds up the dispatcher meanwhile.
  void look(const std::function<void(const Queues&)>& visit) {
    const MutexLock lock(mutex_);
    visit(queues_);
  }
  /// What waits and why, as a JSON object.
  std::string dump_state();

 private:
  void wake();
  void push(Waiter& waiter);
  Waiter* take_handed();
  uint32_t receive(TimePoint now) LLMD_REQUIRES(mutex_);
  void arrive(Waiter& waiter, TimePoint now) LLMD_REQUIRES(mutex_);
  schedule::WaitNote note(const Waiter& waiter, const Queues::Ahead& ahead, TimePoint now)
      LLMD_REQUIRES(mutex_);
  bool too_late(Waiter& waiter, int64_t tokens_ahead, TimePoint now) LLMD_REQUIRES(mutex_);
  float until_drained(int32_t priority) const LLMD_REQUIRES(mutex_);
  void tell_dropped(TimePoint now) LLMD_REQUIRES(mutex_);
  void expire(TimePoint now) LLMD_REQUIRES(mutex_);
  void drain(TimePoint now) LLMD_REQUIRES(mutex_);
  void reclaim(size_t stopped) LLMD_REQUIRES(mutex_);
  void finish(Waiter& waiter, Outcome outcome) LLMD_REQUIRES(mutex_);
  void sync_bands() LLMD_REQUIRES(mutex_);
  void collect(TimePoint now) LLMD_REQUIRES(mutex_);
  void plan(TimePoint now) LLMD_REQUIRES(mutex_);
  void turn(TimePoint now);

  const Clock& clock_;
  metric::Registry& metrics_;
  const std::string pool_name_;
  Host host_;
  Gate gate_;
  FlowProbe probe_;

  // What request loops look at.
  alignas(64) std::atomic<int64_t> top_{INT64_MIN};  // highest priority of which something waits
  std::atomic<uint32_t> handed_count_{0};            // handed over and not seen yet
  std::atomic<size_t> waiting_{0};
  std::atomic<bool> woken_{false};
  alignas(64) std::atomic<Waiter*> handed_{nullptr};  // a stack

  Mutex mutex_;  // uncontended but for dumps and scrapes
  Queues queues_ LLMD_GUARDED_BY(mutex_);
  uint64_t bands_version_ LLMD_GUARDED_BY(mutex_) = 0;
  DrainRate rate_ LLMD_GUARDED_BY(mutex_);
  TimePoint turned_ LLMD_GUARDED_BY(mutex_);  // the last turn
  TimePoint collected_ LLMD_GUARDED_BY(mutex_);
  std::array<int64_t, 2> dropped_ LLMD_GUARDED_BY(mutex_){};  // with, without endpoints
  TimePoint told_ LLMD_GUARDED_BY(mutex_);                    // of them
  std::once_flag evictor_made_;
  std::shared_ptr<Evictor> evictor_;
  std::vector<schedule::Signal> finished_;  // of this turn, the dispatcher's

  std::shared_ptr<void> subscription_;
  std::unique_ptr<ControllerGauges> gauges_;
};

}  // namespace llmd::flow
