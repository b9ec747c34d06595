#include "sim/prefix_cache.h"

#include "base/check.h"

#include <xxhash.h>

namespace llmd::sim {

PrefixCache::PrefixCache(uint32_t capacity_blocks, uint32_t block_tokens, CacheListener* listener)
    : capacity_(capacity_blocks), block_tokens_(block_tokens), listener_(listener), lists_(1) {
  CHECK(block_tokens > 0);
}

void PrefixCache::block_keys(std::span<const uint32_t> tokens, std::string_view owner_name,
                             std::vector<uint64_t>& keys, std::string_view cache_salt) const {
  uint64_t parent = XXH3_64bits(owner_name.data(), owner_name.size());
  if (!cache_salt.empty())
    parent = XXH3_64bits_withSeed(cache_salt.data(), cache_salt.size(), parent);
  for (size_t at = 0; at + block_tokens_ <= tokens.size(); at += block_tokens_) {
    parent = XXH3_64bits_withSeed(tokens.data() + at, block_tokens_ * sizeof(uint32_t), parent);
    if (parent == 0) parent = 1;  // 0 stands for "no parent"
    keys.push_back(parent);
  }
}

PrefixCache::Hit PrefixCache::acquire(std::span<const uint64_t> keys,
                                      std::span<const uint32_t> tokens, uint32_t owner,
                                      std::string_view cache_salt) {
  Hit hit;
  uint32_t newly_used = 0;
  bool contiguous = true;
  fresh_.assign(keys.size(), 0);
  for (size_t i = 0; i < keys.size(); ++i) {
    const auto found = index_.find(keys[i]);
    fresh_[i] = found == index_.end();
    contiguous = contiguous && !fresh_[i];
    hit.cached_blocks += contiguous;
    newly_used += fresh_[i] || blocks_[found->second].holders == 0;
  }
  if (used_ + newly_used > capacity_) return hit;

  // Present blocks are held first, so that making room never evicts one of this prompt.
  for (size_t i = 0; i < keys.size(); ++i) {
    if (fresh_[i]) continue;
    const uint32_t at = index_.find(keys[i])->second;
    if (blocks_[at].holders++ == 0) {
      unlink(at);
      ++used_;
    }
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    if (!fresh_[i]) continue;
    const uint32_t at = take_block();
    blocks_[at] = {keys[i], 0, 1, owner, kNone, kNone};
    index_.emplace(keys[i], at);
    ++used_;
  }
  if (listener_) report_stored(keys, tokens, owner, cache_salt);
  hit.stored = true;
  return hit;
}

void PrefixCache::report_stored(std::span<const uint64_t> keys, std::span<const uint32_t> tokens,
                                uint32_t owner, std::string_view cache_salt) {
  for (size_t i = 0; i < keys.size();) {
    if (!fresh_[i]) {
      ++i;
      continue;
    }
    size_t end = i;
    while (end < keys.size() && fresh_[end]) ++end;
    listener_->on_stored({i ? keys[i - 1] : 0, keys.subspan(i, end - i),
                          tokens.subspan(i * block_tokens_, (end - i) * block_tokens_), owner,
                          cache_salt});
    i = end;
  }
}

void PrefixCache::release(std::span<const uint64_t> keys) {
  for (size_t i = keys.size(); i-- > 0;) {
    const auto found = index_.find(keys[i]);
    CHECK(found != index_.end());
    Block& block = blocks_[found->second];
    CHECK(block.holders > 0);
    if (--block.holders > 0) continue;
    --used_;
    push_unused(found->second);
  }
}

bool PrefixCache::reset() {
  if (used_ > 0) return false;
  blocks_.clear();
  index_.clear();
  for (List& list : lists_) list.head = list.tail = kNone;
  if (listener_) listener_->on_cleared();
  return true;
}

void PrefixCache::set_resident(uint32_t owner, bool resident) {
  list_of(owner).resident = resident;
}

uint32_t PrefixCache::take_block() {
  if (index_.size() >= capacity_) {
    const uint32_t at = victim();
    CHECK(at != kNone);
    if (listener_) listener_->on_removed(blocks_[at].key);
    unlink(at);
    index_.erase(blocks_[at].key);
    return at;
  }
  blocks_.emplace_back();
  return static_cast<uint32_t>(blocks_.size() - 1);
}

uint32_t PrefixCache::victim() const {
  uint32_t oldest = kNone, oldest_gone = kNone;
  for (const List& list : lists_) {
    uint32_t& best = list.resident ? oldest : oldest_gone;
    if (list.head == kNone) continue;
    if (best == kNone || blocks_[list.head].released < blocks_[best].released) best = list.head;
  }
  return oldest_gone != kNone ? oldest_gone : oldest;
}

void PrefixCache::unlink(uint32_t at) {
  Block& block = blocks_[at];
  List& list = list_of(block.owner);
  (block.prev == kNone ? list.head : blocks_[block.prev].next) = block.next;
  (block.next == kNone ? list.tail : blocks_[block.next].prev) = block.prev;
}

void PrefixCache::push_unused(uint32_t at) {
  Block& block = blocks_[at];
  List& list = list_of(block.owner);
  block.released = ++releases_;
  block.prev = list.tail;
  block.next = kNone;
  (list.tail == kNone ? list.head : blocks_[list.tail].next) = at;
  list.tail = at;
}

PrefixCache::List& PrefixCache::list_of(uint32_t owner) {
  if (owner >= lists_.size()) lists_.resize(owner + 1);
  return lists_[owner];
}

}  // namespace llmd::sim
