#include "engines/tagged_event.h"

/// SGLang: arrays of up to seven elements with signed hashes; a salted node of newer versions has
/// a map of options behind them, and the newest write maps.
namespace llmd::kv_events {
namespace {

constexpr Field kStored[] = {Field::kBlocks,  Field::kParent, Field::kTokens, Field::kBlockTokens,
                             Field::kIgnored, Field::kMedium, Field::kOptions};
constexpr Field kRemoved[] = {Field::kBlocks, Field::kMedium};
constexpr NamedField kNames[] = {
    {"type", Field::kType},
    {"block_hashes", Field::kBlocks},
    {"parent_block_hash", Field::kParent},
    {"token_ids", Field::kTokens},
    {"block_size", Field::kBlockTokens},
    {"lora_id", Field::kIgnored},
    {"medium", Field::kMedium},
    {"cache_salt", Field::kCacheSalt},
};

EngineAdapter::Outcome read(codec::MsgpackReader& reader, EventRoom& room, Event& event) {
  return read_tagged({kStored, kRemoved, kNames}, reader, room, event);
}

}  // namespace

extern const EngineAdapter kSglangAdapter;
const EngineAdapter kSglangAdapter{"sglang", read};

}  // namespace llmd::kv_events
