#pragma once

#include "kv/block_keys.h"

#include <boost/unordered/unordered_flat_map.hpp>

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace llmd::kv_precise {

/// What an event needs that goes on behind an engine block which ends within a block of the index:
/// the tokens of that index block up to there. Engines name blocks by their content, so what is
/// kept here never becomes wrong, only superfluous. Bounded: the kRefsMax that were used last.
/// Threading: one thread.
class PartialBlocks {
 public:
  static constexpr size_t kRefsMax = 16384;

  struct NamedExtra {
    size_t block;  // of engine_keys
    std::string text;
    bool salt;
  };
  /// The beginning of one index block.
  struct Block {
    uint64_t parent = 0;  // request key of the block before, or the model's root
    std::vector<uint32_t> tokens;
    std::vector<uint64_t> engine_keys;  // of the engine blocks that lie within it, in order
    std::vector<NamedExtra> extras;     // sorted by block
  };
  /// That much of a block.
  struct Ref {
    std::shared_ptr<const Block> block;
    uint32_t tokens = 0;
    uint32_t engine_keys = 0;
  };

  void keep(uint64_t engine_key, Ref ref);
  /// Null when it is not known. Valid until the next call.
  const Ref* find(uint64_t engine_key);
  void clear();
  size_t size() const { return by_key_.size(); }

 private:
  struct Entry {
    uint64_t engine_key;
    Ref ref;
  };
  std::list<Entry> recent_;  // the last used first
  boost::unordered_flat_map<uint64_t, std::list<Entry>::iterator> by_key_;
};

}  // namespace llmd::kv_precise
