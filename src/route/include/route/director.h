#pragma once

#include "base/arena.h"
#include "base/clock.h"
#include "base/executor.h"
#include "base/mutex.h"
#include "base/rng.h"
#include "fleet/fleet.h"
#include "fleet/health.h"
#include "metric/registry.h"
#include "request/objects.h"
#include "route/retry.h"
#include "schedule/decision_history.h"
#include "schedule/pipeline.h"

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

namespace llmd::trace {
class Tracer;
}

namespace llmd::route {

class DecisionSearch;
class LoopDirector;
class RequestProbe;
class RequestSeriesCache;
class Session;

struct DirectorOptions {
  RetryOptions retry;
  fleet::EjectionOptions ejection{.enabled = false};
  trace::Tracer* tracer = nullptr;  // null: requests leave no spans and keep their `traceparent`
  size_t decision_history = 0;      // decisions that each loop keeps for find_decisions()
};

/// What is shared by all requests of one pool: the fleet, the configured pipeline, the metrics. A
/// process may have several. Threading: set_pipeline() and begin_drain() from a control thread;
/// requests use their loop's LoopDirector.
class Director {
 public:
  Director(fleet::Fleet& fleet, metric::Registry& metrics, const Clock& clock,
           const DirectorOptions& options = {});
  ~Director();
  Director(const Director&) = delete;
  Director& operator=(const Director&) = delete;

  /// Publishes `pipeline` to every loop. Requests under way stay with the one they started under.
  void set_pipeline(schedule::PipelinePtr pipeline);
  schedule::PipelinePtr pipeline() const;

  /// Publishes objectives and model rewrites to every loop.
  void set_objects(request::ObjectsPtr objects);

  using Decisions = std::vector<schedule::KeptDecision>;
  /// Asks every loop for the newest decisions that match. Calls `done` once on `executor`, with the
  /// newest of all first, when each loop has answered or is gone. Lifetime: `executor` outlives the
  /// loops. Threading: any.
  void find_decisions(schedule::DecisionQuery query, Executor& executor,
                      std::move_only_function<void(Decisions)> done) const;
  bool keeps_decisions() const { return decision_history_ > 0; }

  /// Requests that wait for admission are refused from now on.
  void begin_drain();

  fleet::Fleet& fleet() const { return fleet_; }

 private:
  friend class LoopDirector;
  friend class Session;
  void attach(LoopDirector& loop);
  void detach(LoopDirector& loop);

  fleet::Fleet& fleet_;
  const Clock& clock_;
  const RetryOptions retry_;
  trace::Tracer* const tracer_;
  const size_t decision_history_;
  const fleet::Ejector ejector_;
  std::unique_ptr<RequestProbe> probe_;
  mutable Mutex mutex_;
  schedule::PipelinePtr pipeline_ LLMD_GUARDED_BY(mutex_);
  request::ObjectsPtr objects_ LLMD_GUARDED_BY(mutex_);
  std::vector<LoopDirector*> loops_ LLMD_GUARDED_BY(mutex_);
  std::shared_ptr<void> subscription_;
};

/// The services of the thread that a LoopDirector lives on.
struct LoopHost {
  Executor& executor;
  Rng& rng;
  size_t index = 0;
  /// Runs the work after a delay on the same thread. Only suspended requests use it.
  std::function<void(Nanos, std::move_only_function<void()>)> after;
};

/// A loop's own copy of what its requests read, so that pinning a pipeline or a snapshot touches no
/// memory that another loop writes. Threading: one loop; refresh_…() is posted to it. Lifetime:
/// outlives its sessions; destroyed before the Director, when its loop no longer runs.
class LoopDirector {
 public:
  LoopDirector(Director& director, LoopHost host);
  ~LoopDirector();
  LoopDirector(const LoopDirector&) = delete;
  LoopDirector& operator=(const LoopDirector&) = delete;

  /// Requests between head and end on this loop.
  size_t active_sessions() const { return active_; }

 private:
  friend class Director;
  friend class Session;

  static constexpr size_t kArenaBytes = 8192;
  static constexpr size_t kIdleArenasMax = 256;

  /// Runs `work` on the loop, unless this object is gone by then.
  void post(std::move_only_function<void()> work);
  void post_pipeline(schedule::PipelinePtr pipeline);
  void post_objects(request::ObjectsPtr objects);
  void post_snapshot(fleet::SnapshotPtr snapshot);
  void post_drain();
  void post_query(std::shared_ptr<DecisionSearch> search);
  std::unique_ptr<Arena> take_arena();
  void give_back(std::unique_ptr<Arena> arena);

  Director& director_;
  LoopHost host_;
  std::unique_ptr<RequestSeriesCache> series_;
  const std::unique_ptr<schedule::DecisionHistory> history_;  // null: none is kept
  schedule::PipelinePtr pipeline_;
  request::ObjectsPtr objects_;
  fleet::SnapshotPtr snapshot_;
  std::vector<std::unique_ptr<Arena>> arenas_;  // idle ones, for reuse
  std::list<Session*> waiting_;                 // suspended in admission
  uint64_t serial_ = 0;
  size_t active_ = 0;
  bool draining_ = false;
  std::shared_ptr<void> alive_ =
      std::make_shared<int>(0);  // expires with this object; guards posted work
};

}  // namespace llmd::route
