#pragma once

#include "kv_events/engine_adapter.h"

#include <cstdint>
#include <span>
#include <string_view>

/// Events as msgspec's tagged structs write them: an array that begins with the type's name, or a
/// map with the name under "type". vLLM and SGLang both do; what differs are places and names of
/// fields, so an engine is two lists of places and one of names.
namespace llmd::kv_events {

enum class Field : uint8_t {
  kIgnored,
  kType,
  kBlocks,
  kParent,
  kTokens,
  kBlockTokens,
  kMedium,
  kLoraName,
  kExtraKeys,
  kGroup,
  kCacheKind,
  kSlidingWindow,
  kCacheSalt,  // sets the first block of a prompt apart
  kOptions,    // nil, or a map of further named fields
};

struct NamedField {
  std::string_view name;
  Field field;
};

struct TaggedDialect {
  std::span<const Field> stored;      // by place, after the type; further elements are ignored
  std::span<const Field> removed;     // the same of removals
  std::span<const NamedField> names;  // others are ignored. Quickest in the order of the wire
};

EngineAdapter::Outcome read_tagged(const TaggedDialect& dialect, codec::MsgpackReader& reader,
                                   EventRoom& room, Event& event);

}  // namespace llmd::kv_events
