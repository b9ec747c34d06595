#pragma once

#include "base/arena.h"
#include "base/result.h"
#include "codec/msgpack.h"
#include "kv_events/event.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace llmd::kv_events {

/// Where a reading puts what is not a view into the message. What a message announces and does not
/// hold costs nothing: all arrays of a message together have fewer elements than it has bytes.
class EventRoom {
 public:
  EventRoom(Arena& arena, size_t elements_max) : arena_(arena), left_(elements_max) {}

  Arena& arena() { return arena_; }
  /// Nothing when more is announced than a message can hold. The values are not set.
  template <class T>
  std::optional<std::span<T>> take(size_t count) {
    if (count > left_) return std::nullopt;
    left_ -= count;
    return std::span(static_cast<T*>(arena_.allocate(count * sizeof(T), alignof(T))), count);
  }

 private:
  Arena& arena_;
  size_t left_;
};

/// One engine's way of writing events. A further engine is a file in engines/ that defines an
/// adapter, and its line in the list in engine_adapter.cc.
struct EngineAdapter {
  enum class Outcome : uint8_t { kEvent, kUnknown, kMalformed };

  std::string_view name;  // value of engineType
  /// Reads one event off the front of `reader` into `event`, all of it on kEvent; otherwise the
  /// caller skips it.
  Outcome (*read)(codec::MsgpackReader& reader, EventRoom& room, Event& event) = nullptr;
};

/// The adapter of that name; "" is the first, vllm. Errors name the value and the nearest name.
Result<const EngineAdapter*> find_adapter(std::string_view name);
/// All there are, for fuzzing and tests.
std::span<const EngineAdapter* const> adapters();

}  // namespace llmd::kv_events
