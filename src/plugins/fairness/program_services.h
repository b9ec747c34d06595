#pragma once

#include "base/clock.h"
#include "base/keyed_hash.h"
#include "base/mutex.h"

#include <boost/unordered/unordered_flat_map.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace llmd::plugins {

/// What a program (a tenant) has been given of late. Threading: any.
class Program {
 public:
  /// Weighted tokens, halved with every half-life that lay between two requests' ends.
  double service() const { return service_.load(std::memory_order_relaxed); }
  int64_t in_flight() const { return in_flight_.load(std::memory_order_relaxed); }
  double mean_wait_ms() const;

  /// A request goes to an endpoint after `waited`.
  void begin(Nanos waited);
  /// It has ended, and has cost so much.
  void end(double cost, TimePoint now, Nanos half_life);
  /// Nothing runs, and nothing has ended since `before`.
  bool forgotten(TimePoint before) const;

 private:
  mutable Mutex mutex_;  // of one program, for a few instructions at the ends of its requests
  std::atomic<double> service_{0};
  std::atomic<int64_t> in_flight_{0};
  TimePoint touched_ LLMD_GUARDED_BY(mutex_);
  int64_t requests_ LLMD_GUARDED_BY(mutex_) = 0;
  double mean_wait_ms_ LLMD_GUARDED_BY(mutex_) = 0;
};

/// The programs of one fairness policy. Outlives configurations. Threading: any.
class ProgramServices {
 public:
  std::shared_ptr<Program> find_or_add(std::string_view id);
  /// Forgets, at most once in `interval`, programs that have had nothing to do for `ttl`.
  void sweep(TimePoint now, Nanos interval, Nanos ttl);
  /// {"totalPrograms", "totalInFlight", "fairnessIndex"}
  std::string dump() const;

 private:
  mutable SharedMutex mutex_;
  boost::unordered_flat_map<std::string, std::shared_ptr<Program>, KeyedHash, std::equal_to<>>
      programs_ LLMD_GUARDED_BY(mutex_);
  std::atomic<int64_t> next_sweep_{0};
};

/// (sum x)^2 / (n sum x^2): 1 when all are equal, 1/n when one has everything.
double jain_index(std::span<const double> values);

}  // namespace llmd::plugins
