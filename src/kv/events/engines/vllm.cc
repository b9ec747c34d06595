#include "engines/tagged_event.h"

/// vLLM: arrays with trailing defaults left out up to 0.23, maps from 0.24 on. Hashes are the last
/// eight bytes of the engine's own as a number, or the whole as bytes.
namespace llmd::kv_events {
namespace {

constexpr Field kStored[] = {Field::kBlocks,      Field::kParent,       Field::kTokens,
                             Field::kBlockTokens, Field::kIgnored,      Field::kMedium,
                             Field::kLoraName,    Field::kExtraKeys,    Field::kGroup,
                             Field::kCacheKind,   Field::kSlidingWindow};
constexpr Field kRemoved[] = {Field::kBlocks, Field::kMedium, Field::kGroup};
constexpr NamedField kNames[] = {
    {"type", Field::kType},
    {"block_hashes", Field::kBlocks},
    {"parent_block_hash", Field::kParent},
    {"token_ids", Field::kTokens},
    {"block_size", Field::kBlockTokens},
    {"lora_id", Field::kIgnored},
    {"medium", Field::kMedium},
    {"lora_name", Field::kLoraName},
    {"extra_keys", Field::kExtraKeys},
    {"group_idx", Field::kGroup},
    {"kv_cache_spec_kind", Field::kCacheKind},
    {"kv_cache_spec_sliding_window", Field::kSlidingWindow},
};

EngineAdapter::Outcome read(codec::MsgpackReader& reader, EventRoom& room, Event& event) {
  return read_tagged({kStored, kRemoved, kNames}, reader, room, event);
}

}  // namespace

extern const EngineAdapter kVllmAdapter;
const EngineAdapter kVllmAdapter{"vllm", read};

}  // namespace llmd::kv_events
