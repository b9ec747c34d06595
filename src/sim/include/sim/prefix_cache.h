#pragma once

#include <boost/unordered/unordered_flat_map.hpp>

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace llmd::sim {

/// Hears what enters and leaves a prefix cache, in order: for one request first the removals, then
/// the stores. This is where KV events come from. Calls come from within the cache's own methods;
/// they must not call back into it.
class CacheListener {
 public:
  /// A run of consecutive new blocks of one prompt. The spans die with the call.
  struct Stored {
    uint64_t parent;  // key of the block before the run; 0: the run starts the prompt
    std::span<const uint64_t> keys;
    std::span<const uint32_t> tokens;  // block size tokens a key
    uint32_t owner;                    // 0: the base model, else adapter + 1
    std::string_view cache_salt;       // of the prompt
  };

  virtual ~CacheListener() = default;
  virtual void on_removed(uint64_t key) = 0;
  virtual void on_stored(const Stored& run) = 0;
  virtual void on_cleared() = 0;
};

/// The KV cache of one simulated server: which full prompt blocks are resident, which of them
/// running sequences hold. A prompt's blocks have chained keys, so a key names a block with
/// everything before it.
///
/// Invariants: used() + unused blocks <= capacity; a block with holders is in no list; a block
/// without is in exactly one list, that of its owner, ordered by release. Blocks of one prompt are
/// released last first, so that a prompt loses its tail before its head.
///
/// Threading: one thread. Cost: O(1) a block; choosing a victim is linear in the number of
/// adapters. Memory: 40 bytes a block of capacity once it has been used.
class PrefixCache {
 public:
  PrefixCache(uint32_t capacity_blocks, uint32_t block_tokens, CacheListener* listener = nullptr);

  /// Appends the keys of the full blocks of `tokens` to `keys`. Prompts of different owners or
  /// salts share nothing.
  void block_keys(std::span<const uint32_t> tokens, std::string_view owner_name,
                  std::vector<uint64_t>& keys, std::string_view cache_salt = {}) const;

  struct Hit {
    bool stored = false;  // false: the blocks do not fit beside those in use; nothing changed
    uint32_t cached_blocks = 0;  // resident before the call, counted from the start without a gap
  };

  /// Holds the blocks `keys` of a prompt, evicting unused ones to make room. Pair with release()
  /// when stored.
  Hit acquire(std::span<const uint64_t> keys, std::span<const uint32_t> tokens, uint32_t owner,
              std::string_view cache_salt = {});
  void release(std::span<const uint64_t> keys);

  /// Forgets every unused block. False, and no change, while any block is in use.
  bool reset();

  /// Adapters whose weights are gone lose their blocks first. `owner` 0 is always resident.
  void set_resident(uint32_t owner, bool resident);

  uint32_t capacity() const { return capacity_; }
  uint32_t block_tokens() const { return block_tokens_; }
  uint32_t used() const { return used_; }
  uint32_t resident_blocks() const { return static_cast<uint32_t>(index_.size()); }
  double usage() const { return capacity_ ? static_cast<double>(used_) / capacity_ : 0; }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Block {
    uint64_t key;
    uint64_t released;  // position in the order of releases
    uint32_t holders;
    uint32_t owner;
    uint32_t prev, next;  // in the owner's list, oldest release first
  };
  struct List {
    uint32_t head = kNone, tail = kNone;
    bool resident = true;
  };

  uint32_t take_block();
  uint32_t victim() const;
  void unlink(uint32_t at);
  void push_unused(uint32_t at);
  List& list_of(uint32_t owner);
  void report_stored(std::span<const uint64_t> keys, std::span<const uint32_t> tokens,
                     uint32_t owner, std::string_view cache_salt);

  const uint32_t capacity_;
  const uint32_t block_tokens_;
  CacheListener* listener_;
  uint32_t used_ = 0;
  uint64_t releases_ = 0;
  std::vector<Block> blocks_;
  std::vector<List> lists_;
  std::vector<uint8_t> fresh_;  // of the current acquire: which keys are new
  boost::unordered_flat_map<uint64_t, uint32_t> index_;
};

}  // namespace llmd::sim
