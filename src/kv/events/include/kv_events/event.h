#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

/// What model servers say about their KV caches, in one form for all engines.
namespace llmd::kv_events {

/// How the layers of a cache group use their blocks. A block of another kind than the first three
/// does not by itself make a prefix reusable.
enum class CacheKind : uint8_t {
  kUnstated,
  kFullAttention,
  kMlaAttention,
  kSinkFullAttention,
  kSlidingWindow,
  kSlidingWindowMla,
  kMamba,
  kChunkedLocalAttention,
  kEncoderOnlyAttention,
  kCrossAttention,
  kUnknown,  // stated, and none of these
};

/// The kind under the name that engines give it; kUnknown for other names.
CacheKind cache_kind(std::string_view name);
/// The name; "" for kUnstated, "unknown" for kUnknown.
std::string_view cache_kind_name(CacheKind kind);

/// What sets a block's content apart besides its tokens: hashes of images, the cache salt. In the
/// order in which they enter a block's key; the name of a LoRA adapter is not among them.
using Extras = std::span<const std::string_view>;

/// One change of an engine's cache. Blocks are named by the engine: a number that stands for the
/// block and all before it, opaque to everyone else and never equal to a key of ours.
struct Event {
  enum class Type : uint8_t {
    kStored,   // `blocks`, in order of the prompt, are now in the cache
    kRemoved,  // `blocks` of this medium and group are not any more: one physical copy of each
    kCleared,  // nothing is left, in any medium or group
  };
  static constexpr uint32_t kNoGroup = UINT32_MAX;

  Type type = Type::kCleared;
  CacheKind cache_kind = CacheKind::kUnstated;
  uint32_t group = kNoGroup;
  std::span<const uint64_t> blocks;
  /// Where they are: "gpu", "cpu", "disk" … in small letters; "gpu" when the engine says nothing.
  std::string_view medium;

  // Of stored blocks only.
  uint64_t parent = 0;               // the block before the first one; 0: the prompt begins here
  std::span<const uint32_t> tokens;  // of all blocks; empty when the engine leaves them out
  uint32_t block_tokens = 0;         // as the engine says, unchecked; 0 with empty tokens
  uint32_t sliding_window = 0;       // tokens; 0: not stated
  std::string_view lora_name;        // "": the base model
  /// Empty when no block has any; else an entry for each of the engine's blocks, as many as it
  /// sent.
  std::span<const Extras> extras;
  bool salted = false;  // the last extra of the first block is the cache salt
};

/// The events of one message. Order matters: removals come before the stores that took their
/// place. Views into the message and into the decoder's arena: valid until its next batch.
struct Batch {
  double published = 0;          // Unix seconds, by the engine's clock
  std::optional<uint32_t> rank;  // data-parallel rank, where the engine tells it
  std::span<const Event> events;
  uint32_t unknown = 0;    // events left out since their type is new to us
  uint32_t malformed = 0;  // events left out since they cannot be read
};

}  // namespace llmd::kv_events
