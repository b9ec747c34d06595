#include "partial_blocks.h"

#include <utility>

namespace llmd::kv_precise {

void PartialBlocks::keep(uint64_t engine_key, Ref ref) {
  const auto [at, fresh] = by_key_.try_emplace(engine_key);
  if (fresh) {
    recent_.push_front({engine_key, std::move(ref)});
    at->second = recent_.begin();
  } else {
    at->second->ref = std::move(ref);
    recent_.splice(recent_.begin(), recent_, at->second);
  }
  if (by_key_.size() <= kRefsMax) return;
  by_key_.erase(recent_.back().engine_key);
  recent_.pop_back();
}

const PartialBlocks::Ref* PartialBlocks::find(uint64_t engine_key) {
  const auto at = by_key_.find(engine_key);
  if (at == by_key_.end()) return nullptr;
  recent_.splice(recent_.begin(), recent_, at->second);
  return &at->second->ref;
}

void PartialBlocks::clear() {
  by_key_.clear();
  recent_.clear();
}

}  // namespace llmd::kv_precise
