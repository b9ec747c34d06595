#pragma once

#include "base/executor.h"
#include "base/mutex.h"
#include "schedule/decision_history.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace llmd::route {

/// Collects what the loops of a pool find. Each loop holds a reference until it has answered, or is
/// gone; whoever drops the last one sends the answer on its way. Threading: any.
class DecisionSearch {
 public:
  using Decisions = std::vector<schedule::KeptDecision>;

  DecisionSearch(schedule::DecisionQuery query, Executor& executor,
                 std::move_only_function<void(Decisions)> done)
      : query_(std::move(query)), executor_(executor), done_(std::move(done)) {}
  DecisionSearch(const DecisionSearch&) = delete;
  DecisionSearch& operator=(const DecisionSearch&) = delete;
  ~DecisionSearch() {
    std::ranges::stable_sort(found_, std::ranges::greater(), &schedule::KeptDecision::at);
    if (found_.size() > query_.limit)
      found_.erase(found_.begin() + static_cast<ptrdiff_t>(query_.limit), found_.end());
    executor_.post(
        [done = std::move(done_), found = std::move(found_)]() mutable { done(std::move(found)); });
  }

  const schedule::DecisionQuery& query() const { return query_; }
  void add(Decisions decisions) {
    const MutexLock lock(mutex_);
    std::ranges::move(decisions, std::back_inserter(found_));
  }

 private:
  const schedule::DecisionQuery query_;
  Executor& executor_;
  std::move_only_function<void(Decisions)> done_;
  Mutex mutex_;
  Decisions found_ LLMD_GUARDED_BY(mutex_);
};

}  // namespace llmd::route
