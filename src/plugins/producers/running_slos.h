#pragma once

#include "base/limits.h"
#include "base/mutex.h"
#include "fleet/endpoint.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>

namespace llmd::plugins {

/// The requests that run on each endpoint, and the strictest time per token among them.
/// Threading: any. Reading takes no lock; adding and removing takes one.
class RunningSlos final : public fleet::MembershipListener {
 public:
  struct Now {
    int64_t requests = 0;
    double tpot_min = 0;  // milliseconds; 0: nobody has an objective
  };

  Now on(const fleet::Endpoint& endpoint) const {
    const Shown& shown = shown_[endpoint.slot()];
    if (shown.generation.load(std::memory_order_acquire) != endpoint.generation()) return {};
    return {shown.requests.load(std::memory_order_relaxed),
            shown.tpot_min.load(std::memory_order_relaxed)};
  }

  /// `tpot` 0: the request has no objective. Requires: tpot >= 0.
  void add(const fleet::Endpoint& endpoint, double tpot) {
    const MutexLock lock(mutex_);
    auto& running = running_[endpoint.generation()];
    ++running.requests;
    if (tpot > 0) running.tpots.insert(tpot);
    show(endpoint, running);
  }
  void remove(const fleet::Endpoint& endpoint, double tpot) {
    const MutexLock lock(mutex_);
    const auto at = running_.find(endpoint.generation());
    if (at == running_.end()) return;
    auto& running = at->second;
    --running.requests;
    if (const auto found = running.tpots.find(tpot); found != running.tpots.end())
      running.tpots.erase(found);
    show(endpoint, running);
    if (running.requests == 0) running_.erase(at);
  }

  /// Requests that run anywhere.
  size_t tracked() const {
    const MutexLock lock(mutex_);
    size_t sum = 0;
    for (const auto& [generation, running] : running_) sum += static_cast<size_t>(running.requests);
    return sum;
  }

 private:
  struct Running {
    int64_t requests = 0;
    std::multiset<double> tpots;
  };
  struct Shown {
    std::atomic<uint64_t> generation{0};
    std::atomic<int64_t> requests{0};
    std::atomic<double> tpot_min{0};
  };

  /// A slot shows the newest generation that was heard of.
  void show(const fleet::Endpoint& endpoint, const Running& running) LLMD_REQUIRES(mutex_) {
    Shown& shown = shown_[endpoint.slot()];
    if (shown.generation.load(std::memory_order_relaxed) > endpoint.generation()) return;
    shown.requests.store(running.requests, std::memory_order_relaxed);
    shown.tpot_min.store(running.tpots.empty() ? 0 : *running.tpots.begin(),
                         std::memory_order_relaxed);
    shown.generation.store(endpoint.generation(), std::memory_order_release);
  }

  mutable Mutex mutex_;
  std::map<uint64_t, Running> running_ LLMD_GUARDED_BY(mutex_);  // by generation
  std::array<Shown, limits::kEndpointsMax> shown_{};             // by slot
};

}  // namespace llmd::plugins
