#pragma once

#include "base/clock.h"
#include "base/headers.h"
#include "base/mutex.h"
#include "base/rng.h"
#include "metric/registry.h"
#include "trace/settings.h"
#include "trace/trace.h"

#include <array>
#include <functional>
#include <string>

namespace llmd::trace {

/// Spans as OTLP's `ScopeSpans.spans` fields, by scope.
struct Batch {
  std::array<std::string, kScopes> spans;
  size_t count = 0;
};

/// Decides which requests are sampled and queues what they recorded. Threading: any. Cost of a
/// request that is not sampled: two random numbers; of a sampled one: its spans are encoded on its
/// own loop and appended under a lock.
class Tracer {
 public:
  Tracer(const Settings& settings, const Clock& clock, metric::Registry& metrics);

  struct Start {
    SpanContext own;      // for the next hop
    uint64_t parent = 0;  // the caller's span; 0: none
  };
  /// A child of the caller's trace, sampled as the caller says; or a new trace, sampled by ratio.
  /// Without a trace context in `headers`, `carrier` is that of whoever carries the request.
  Start start(HeaderView headers, Rng& rng, std::string_view carrier = {}) const;

  /// Takes the spans of an ended request, all of them closed.
  void finish(const Trace& trace);

  /// What has been queued since the last call. Threading: the exporter's.
  Batch take();
  /// Called, at most once between two take(), when a batch is full. Set before the first finish().
  void on_full(std::function<void()> wake) { wake_ = std::move(wake); }

 private:
  const uint64_t threshold_;  // of the trace id's low 63 bits
  const size_t batch_max_, queue_max_;
  const Clock& clock_;
  const metric::Counter dropped_;
  std::function<void()> wake_;
  Mutex mutex_;
  Batch queue_ LLMD_GUARDED_BY(mutex_);
};

/// The counter of spans by what became of them: "exported", "dropped" (the queue was full) or
/// "failed" (the collector did not take them).
metric::Counter span_counter(metric::Registry& metrics, std::string_view outcome);

}  // namespace llmd::trace
