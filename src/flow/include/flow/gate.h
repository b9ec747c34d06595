#pragma once

#include "base/clock.h"
#include "base/mutex.h"
#include "fleet/fleet.h"
#include "flow/policies.h"
#include "flow/queues.h"
#include "schedule/interfaces.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace llmd::flow {

/// Until where requests of one priority may be let in, see Gate.
struct BandGate {
  explicit BandGate(int32_t p) : priority(p) {}
  const int32_t priority;
  std::atomic<uint64_t> limit{0};
  // As of the last reading, for those who ask why.
  std::atomic<double> ceiling{1};  // its own
  std::atomic<bool> above{false};  // a higher band has a lower one
};

/// How full the pool is, and who may go in now.
///
/// Every request that is let in reserves what it will add to the saturation, in units of 1/kUnit,
/// until it shows in what the detector reads. Two sums that only grow say how much that is: what
/// has been let in, and what has been settled since. A reading of the detector notes the second
/// sum, then reads the loads; from then on a band is open while
///
///     saturation read + (let in now - settled at the reading) / kUnit < ceiling
///
/// so each band has a limit on the first sum, and to let a request in is one compare-and-swap on
/// it. What is settled after a reading still counts until the next: never too many go in.
///
/// Sums wrap: they are compared by their difference.
///
/// Threading: any. read() excludes itself; everything else is without locks.
class Gate {
 public:
  static constexpr uint64_t kUnit = uint64_t{1} << 32;
  /// A reading is used for this long, or longer where reading costs more.
  static constexpr Nanos kPeriod = std::chrono::milliseconds(1);
  static constexpr uint64_t kBatchPerEndpoint = 4;
  /// An older one is not used at all.
  static constexpr Nanos kTooOld = std::chrono::milliseconds(50);

  explicit Gate(const Clock& clock) : clock_(clock) {}

  /// Lifetime: `owner` keeps both.
  void configure(const schedule::SaturationDetector& detector, const UsageLimitPolicy& usage,
                 std::shared_ptr<const void> owner);
  /// Lets go of the pool and of the owner. Every band is shut from then on.
  void retire();
  void set_pool(fleet::SnapshotPtr pool);
  /// The bands there are. Sets their `gate`.
  void set_bands(std::span<const std::unique_ptr<Band>> bands);

  /// The gate of a priority; null: there is no such band, or nobody has said so yet.
  BandGate* find(int32_t priority) const;

  /// What a request adds, in units.
  uint64_t units(const schedule::SaturationDetector& detector, int64_t prompt_tokens) const;
  /// The same for one of a queue: where a detector cannot tell, so much that not more than a few
  /// requests an endpoint go in before the next reading.
  uint64_t units_at_least(const schedule::SaturationDetector& detector,
                          int64_t prompt_tokens) const;
  /// Whether anything may go in.
  bool open(const BandGate& gate) const;
  /// How full the pool is, with what is reserved.
  double saturation() const {
    const uint64_t reserved =
        let_in_.load(std::memory_order_relaxed) - settled_.load(std::memory_order_relaxed);
    return saturation_.load(std::memory_order_relaxed) +
           static_cast<double>(reserved) / static_cast<double>(kUnit);
  }
  /// Lets in. False: the pool is full for this band.
  bool reserve(const BandGate& gate, uint64_t units);
  void settle(uint64_t units) { settled_.fetch_add(units, std::memory_order_release); }

  /// Reads the detector and sets the limits, unless that was done within the last period or is
  /// being done. False: there is no reading that can be used.
  bool refresh(TimePoint now);
  /// Reads, unless so much has been read of late that it would take too much of the thread.
  void renew(TimePoint now);
  /// Makes the next refresh() read.
  void expire() { read_at_.store(kUnread, std::memory_order_relaxed); }
  /// How long a reading is used.
  Nanos period() const { return Nanos(period_.load(std::memory_order_relaxed)); }

  Regime regime() const;
  bool pool_empty() const { return pool_size_.load(std::memory_order_relaxed) == 0; }

  /// By stage; none: no endpoint has the role.
  struct Saturation {
    std::optional<double> prefill, decode;
    double effective = 1;  // the highest
  };
  /// What the detector says now, without what it counts for the gate alone.
  Saturation measure(TimePoint now);

  /// By what the bands are open or shut.
  struct Reading {
    double saturation = 1;
    std::vector<std::pair<int32_t, double>> ceilings;  // descending priority
    uint64_t reserved = 0;                             // in units
  };
  Reading reading() const;

 private:
  static constexpr int64_t kUnread = INT64_MIN / 2;

  using Measure = double (schedule::SaturationDetector::*)(std::span<const schedule::Candidate>,
                                                           TimePoint) const;
  bool read_locked(TimePoint now) LLMD_REQUIRES(mutex_);
  Saturation by_stage(Measure measure, TimePoint now) LLMD_REQUIRES(mutex_);
  /// Of a stage, or of all.
  double of(const std::vector<uint32_t>* stage, bool without_ejected, Measure measure,
            TimePoint now) LLMD_REQUIRES(mutex_);
  void sort_stages() LLMD_REQUIRES(mutex_);

  const Clock& clock_;
  std::atomic<uint64_t> let_in_{0};
  std::atomic<uint64_t> settled_{0};
  alignas(64) std::atomic<int64_t> read_at_{kUnread};  // nanoseconds of the clock
  std::atomic<int64_t> period_{kPeriod.count()};
  std::atomic<int64_t> pause_{0};  // at least between two readings
  std::atomic<uint32_t> pool_size_{0};
  std::atomic<uint32_t> stage_size_{0};  // as many share the work of the smallest stage
  std::array<std::atomic<BandGate*>, Queues::kBandsMax> gates_{};
  std::atomic<size_t> gate_count_{0};

  mutable Mutex mutex_;
  std::vector<std::unique_ptr<BandGate>> owned_ LLMD_GUARDED_BY(mutex_);
  std::vector<BandGate*> bands_ LLMD_GUARDED_BY(mutex_);  // descending priority
  std::vector<int32_t> priorities_ LLMD_GUARDED_BY(mutex_);
  std::vector<double> ceilings_ LLMD_GUARDED_BY(mutex_);
  const schedule::SaturationDetector* detector_ LLMD_GUARDED_BY(mutex_) = nullptr;
  const UsageLimitPolicy* usage_ LLMD_GUARDED_BY(mutex_) = nullptr;
  std::shared_ptr<const void> owner_ LLMD_GUARDED_BY(mutex_);
  fleet::SnapshotPtr pool_ LLMD_GUARDED_BY(mutex_);
  std::vector<uint32_t> prefill_, decode_ LLMD_GUARDED_BY(mutex_);  // indices of the pool
  std::vector<schedule::Candidate> candidates_, members_ LLMD_GUARDED_BY(mutex_);
  size_t smallest_ LLMD_GUARDED_BY(mutex_) = 0;  // stage that was last measured, in endpoints
  Regime regime_ LLMD_GUARDED_BY(mutex_);
  std::atomic<double> saturation_{1};  // of the last reading
};

}  // namespace llmd::flow
