#pragma once

#include "base/clock.h"
#include "io/loop_thread.h"
#include "metric/registry.h"

#include <atomic>
#include <cstdint>

namespace llmd::kv_precise {

/// What happened to the precise index, on the page of metrics and, while this lives, as totals for
/// the log (spec 05 §10). Threading: any.
class IndexCounts {
 public:
  explicit IndexCounts(metric::Registry& registry);

  /// Request keys that engines have stored.
  void stored(size_t keys) { admissions_.add(keys); }
  /// Blocks that they have removed.
  void removed(size_t blocks) { evictions_.add(blocks); }
  /// A prompt: `longest` of its blocks are with one endpoint, from the start without a gap.
  void looked_up(size_t longest, Nanos took);

  /// Writes the line "metrics beat".
  void log() const;

 private:
  struct Total {
    void add(size_t n) {
      counter.add(static_cast<double>(n));
      sum.fetch_add(n, std::memory_order_relaxed);
    }
    uint64_t now() const { return sum.load(std::memory_order_relaxed); }
    metric::Counter counter;
    std::atomic<uint64_t> sum{0};
  };

  Total admissions_, evictions_, lookups_, hits_;
  std::atomic<uint64_t> nanos_{0};  // of look-ups
  metric::Counter max_hits_;
  metric::Histogram latency_;
};

/// Logs the counts every `interval`, on a thread of its own. Requires: `counts` outlives this.
class IndexBeat {
 public:
  IndexBeat(const IndexCounts& counts, Nanos interval, const Clock& clock);
  ~IndexBeat() { thread_.stop(); }

 private:
  void arm();

  const IndexCounts& counts_;
  const Nanos interval_;
  io::LoopThread thread_;
  io::Timer timer_;
};

}  // namespace llmd::kv_precise
