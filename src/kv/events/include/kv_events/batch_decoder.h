#pragma once

#include "base/arena.h"
#include "kv_events/engine_adapter.h"
#include "kv_events/event.h"

#include <cstddef>
#include <optional>
#include <string_view>

namespace llmd::kv_events {

/// Reads the messages of one kind of engine. An event that cannot be read is left out and counted;
/// its batch goes on. Consecutive removals from one medium and group become one event.
/// Threading: one thread. Memory: an arena that is reused, of a few times the size of a batch.
/// Cost: one pass, no allocation once the arena has grown.
class BatchDecoder {
 public:
  /// Larger batches are refused. One of 16 MiB tells of more than three million tokens.
  static constexpr size_t kBatchBytesMax = size_t{16} << 20;

  explicit BatchDecoder(const EngineAdapter& adapter) : adapter_(adapter), arena_(64 * 1024) {}

  /// Nothing when the message is no batch, or broken off: then none of it counts. Requires:
  /// `payload` stays in place as long as the batch is used.
  std::optional<Batch> decode(std::string_view payload);

 private:
  bool read_events(codec::MsgpackReader& reader, EventRoom& room, Batch& batch);

  const EngineAdapter& adapter_;
  Arena arena_;
};

/// When the batch was published, without reading the rest: enough to tell two messages of one
/// publisher with the same sequence number apart. 0 when the message does not begin with it.
double published_at(std::string_view payload);

}  // namespace llmd::kv_events
