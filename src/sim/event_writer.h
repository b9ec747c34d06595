#pragma once

#include "block_digest.h"

#include "codec/msgpack.h"
#include "sim/config.h"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace llmd::sim {

/// Blocks that follow one another in a prompt and are new in the cache.
struct StoredBlocks {
  const Digest* parent = nullptr;  // null: the prompt begins here
  std::span<const Digest> blocks;
  std::span<const uint32_t> tokens;  // of all blocks
  uint32_t block_tokens = 0;
  uint32_t lora_id = 0;  // 0: the base model
  std::string_view lora_name;
  std::string_view cache_salt;  // of the prompt; told where it begins
};

/// Writes KV events byte for byte as engines do, one after the other, and batches around them.
/// Threading: one thread. Memory: buffers that are reused.
class EventWriter {
 public:
  /// `whole_hashes`: digests as 32 bytes; otherwise short hashes, of SGLang with a sign.
  EventWriter(EventFormat format, bool whole_hashes)
      : format_(format), whole_hashes_(whole_hashes), out_(events_) {}
  EventWriter(const EventWriter&) = delete;
  EventWriter& operator=(const EventWriter&) = delete;

  void stored(const StoredBlocks& run);
  void removed(const Digest& block);
  void cleared();

  /// Events since the last batch.
  uint32_t count() const { return count_; }
  /// Ends the batch. `published`: Unix seconds; `rank`: nothing where the engine has no ranks.
  std::string take_batch(double published, std::optional<uint32_t> rank);

 private:
  bool map() const { return format_ == EventFormat::kMap; }
  void begin(std::string_view type, uint32_t fields);
  void name(std::string_view field);
  void hash(const Digest& digest);
  void extra_keys(const StoredBlocks& run);
  void optional_text(std::string_view text);

  const EventFormat format_;
  const bool whole_hashes_;
  std::string events_;
  codec::MsgpackWriter out_;
  uint32_t count_ = 0;
};

}  // namespace llmd::sim
