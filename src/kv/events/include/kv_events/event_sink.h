#pragma once

#include "kv_events/event.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace llmd::kv_events {

/// One stream of events: of an engine, or of one of its data-parallel ranks.
struct Publisher {
  std::string pod;               // "address:port" of the endpoint whose cache this is
  uint64_t owner = 0;            // of whoever follows it (PublisherSpec); 0: found by its topic
  std::optional<uint32_t> rank;  // where one pod publishes for several
  void* state = nullptr;         // the sink's own
};

/// Where events go. What it keeps of a publisher is a view of that engine's cache.
/// Threading: all calls about one publisher come from one thread, in order; those about others may
/// come from other threads at the same time. Calls must not block: meanwhile nothing else that this
/// thread follows is read, and engines drop what they cannot send.
class EventSink {
 public:
  virtual ~EventSink() = default;

  /// The first call about a publisher. Its view is empty.
  virtual void on_joined(Publisher&) {}
  /// Apply the events in order. `model` is the base model's name, "" when nothing tells it.
  virtual void on_batch(Publisher& publisher, std::string_view model, const Batch& batch) = 0;
  /// Batches are missing before what comes next: the view may hold blocks that are gone, and blocks
  /// whose parents are unknown may follow. Trust it less until it has been renewed.
  virtual void on_lost(Publisher& publisher, uint64_t batches) = 0;
  /// The engine began anew: its cache is empty, and so must be the view.
  virtual void on_reset(Publisher& publisher) = 0;
  /// The last call: the endpoint is gone, and its blocks with it. Not called when all ends.
  virtual void on_left(Publisher& publisher) = 0;
};

}  // namespace llmd::kv_events
