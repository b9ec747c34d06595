#include "route/director.h"

#include "decision_search.h"
#include "request_probe.h"

#include "route/session.h"

#include <algorithm>

namespace llmd::route {
namespace {

/// The same object behind a reference count that only the calling loop touches.
template <class T>
std::shared_ptr<const T> loop_local(std::shared_ptr<const T> shared) {
  if (!shared) return nullptr;
  const T* object = shared.get();
  return {std::make_shared<std::shared_ptr<const T>>(std::move(shared)), object};
}

}  // namespace

Director::Director(fleet::Fleet& fleet, metric::Registry& metrics, const Clock& clock,
                   const DirectorOptions& options)
    : fleet_(fleet),
      clock_(clock),
      retry_(options.retry),
      tracer_(options.tracer),
      decision_history_(options.decision_history),
      ejector_(fleet, metrics, options.ejection),
      probe_(std::make_unique<RequestProbe>(metrics)) {
  subscription_ = fleet_.subscribe([this](const fleet::SnapshotPtr& snapshot) {
    const MutexLock lock(mutex_);
    for (auto* loop : loops_) loop->post_snapshot(snapshot);
  });
}

Director::~Director() = default;

void Director::set_pipeline(schedule::PipelinePtr pipeline) {
  const MutexLock lock(mutex_);
  if (pipeline && pipeline->admission) {
    pipeline->admission->start(pipeline);
    if (objects_) pipeline->admission->expect(objects_->priorities());
  }
  pipeline_ = std::move(pipeline);
  for (auto* loop : loops_) loop->post_pipeline(pipeline_);
}

schedule::PipelinePtr Director::pipeline() const {
  const MutexLock lock(mutex_);
  return pipeline_;
}

void Director::set_objects(request::ObjectsPtr objects) {
  const MutexLock lock(mutex_);
  objects_ = std::move(objects);
  for (const auto& rewrite : objects_->rewrites()) probe_->admit_models(rewrite);
  if (pipeline_ && pipeline_->admission) pipeline_->admission->expect(objects_->priorities());
  for (auto* loop : loops_) loop->post_objects(objects_);
}

void Director::find_decisions(schedule::DecisionQuery query, Executor& executor,
                              std::move_only_function<void(Decisions)> done) const {
  const auto search = std::make_shared<DecisionSearch>(std::move(query), executor, std::move(done));
  const MutexLock lock(mutex_);
  for (auto* loop : loops_) loop->post_query(search);
}

void Director::begin_drain() {
  const MutexLock lock(mutex_);
  for (auto* loop : loops_) loop->post_drain();
}

void Director::attach(LoopDirector& loop) {
  const MutexLock lock(mutex_);
  loops_.push_back(&loop);
  loop.pipeline_ = loop_local(pipeline_);
  loop.objects_ = loop_local(objects_);
}

void Director::detach(LoopDirector& loop) {
  const MutexLock lock(mutex_);
  std::erase(loops_, &loop);
}

LoopDirector::LoopDirector(Director& director, LoopHost host)
    : director_(director),
      host_(std::move(host)),
      series_(std::make_unique<RequestSeriesCache>(*director.probe_)),
      history_(director.decision_history_ > 0
                   ? std::make_unique<schedule::DecisionHistory>(director.decision_history_)
                   : nullptr) {
  director_.attach(*this);
  snapshot_ = loop_local(director_.fleet_.snapshot());
}

LoopDirector::~LoopDirector() {
  director_.detach(*this);
}

void LoopDirector::post(std::move_only_function<void()> work) {
  host_.executor.post([guard = std::weak_ptr(alive_), work = std::move(work)]() mutable {
    if (guard.lock()) work();
  });
}

void LoopDirector::post_pipeline(schedule::PipelinePtr pipeline) {
  post([this, pipeline = std::move(pipeline)]() mutable {
    pipeline_ = loop_local(std::move(pipeline));
  });
}

void LoopDirector::post_objects(request::ObjectsPtr objects) {
  post([this, objects = std::move(objects)]() mutable {
    objects_ = loop_local(std::move(objects));
  });
}

void LoopDirector::post_snapshot(fleet::SnapshotPtr snapshot) {
  post([this, snapshot = std::move(snapshot)]() mutable {
    if (!snapshot_ || snapshot_->version < snapshot->version)
      snapshot_ = loop_local(std::move(snapshot));
  });
}

void LoopDirector::post_drain() {
  post([this] {
    draining_ = true;
    while (!waiting_.empty()) waiting_.front()->on_drain();  // it leaves the list
  });
}

void LoopDirector::post_query(std::shared_ptr<DecisionSearch> search) {
  if (!history_) return;
  post([this, search = std::move(search)] { search->add(history_->find(search->query())); });
}

std::unique_ptr<Arena> LoopDirector::take_arena() {
  if (arenas_.empty()) return std::make_unique<Arena>(kArenaBytes);
  auto arena = std::move(arenas_.back());
  arenas_.pop_back();
  return arena;
}

void LoopDirector::give_back(std::unique_ptr<Arena> arena) {
  arena->reset();
  if (arenas_.size() < kIdleArenasMax) arenas_.push_back(std::move(arena));
}

}  // namespace llmd::route
