#include "kv_precise/speculative_blocks.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace llmd::kv_precise {
namespace {

constexpr kv::Place kSpeculative{.speculative = true};
/// Requests whose blocks one call takes back.
constexpr size_t kExpiredAtOnce = 16;

}  // namespace

void SpeculativeBlocks::note_next() {
  next_.store(entries_.empty() ? TimePoint::max() : entries_.front().until,
              std::memory_order_relaxed);
}

void SpeculativeBlocks::add(const kv::Holder& holder, std::span<const uint64_t> chain,
                            TimePoint now) {
  if (chain.empty()) return;
  {
    const MutexLock lock(mutex_);
    if (keys_ + chain.size() > kKeysMax) return;
    keys_ += chain.size();
    entries_.push_back({now + ttl_, holder, {chain.begin(), chain.end()}});
    note_next();
  }
  index_.store({.holder = holder, .place = kSpeculative, .keys = chain, .engine_keys = {}});
}

void SpeculativeBlocks::expire(TimePoint now) {
  for (size_t i = 0; i < kExpiredAtOnce && next_.load(std::memory_order_relaxed) <= now; ++i) {
    Entry entry;
    {
      const MutexLock lock(mutex_);
      if (entries_.empty() || entries_.front().until > now) return;
      entry = std::move(entries_.front());
      entries_.pop_front();
      keys_ -= entry.chain.size();
      note_next();
    }
    index_.remove_keys(entry.holder, kSpeculative, entry.chain);
  }
}

void SpeculativeBlocks::withdraw(const kv::Holder& holder, std::span<const uint64_t> chain) {
  {
    const MutexLock lock(mutex_);
    const auto at = std::find_if(entries_.rbegin(), entries_.rend(), [&](const Entry& entry) {
      return entry.holder.slot == holder.slot && entry.holder.generation == holder.generation &&
             std::ranges::equal(entry.chain, chain);
    });
    if (at == entries_.rend()) return;
    keys_ -= chain.size();
    entries_.erase(std::next(at).base());
    note_next();
  }
  index_.remove_keys(holder, kSpeculative, chain);
}

std::vector<SpeculativeBlocks::State> SpeculativeBlocks::oldest(size_t limit, size_t& total) const {
  std::vector<State> out;
  const MutexLock lock(mutex_);
  total = entries_.size();
  out.reserve(std::min(limit, total));
  for (size_t i = 0; i < std::min(limit, total); ++i)
    out.push_back({entries_[i].holder, entries_[i].chain.size()});
  return out;
}

}  // namespace llmd::kv_precise
