#include "kv_precise/precise_store.h"

#include <utility>

namespace llmd::kv_precise {

PreciseStore::PreciseStore(const kv::PreciseIndexOptions& options, TierNames& tiers,
                           std::unique_ptr<kv_shared::SharedIndex> shared)
    : tiers_(tiers), local_(options), shared_(std::move(shared)) {}

PreciseStore::~PreciseStore() = default;

void PreciseStore::name(const kv::Holder& holder, std::string_view pod) {
  if (!shared_) return;
  const MutexLock lock(mutex_);
  names_.insert_or_assign(holder.slot, Named{holder.generation, std::string(pod)});
}

std::optional<kv_shared::Entry> PreciseStore::entry(const kv::Holder& holder,
                                                    const kv::Place& place) const {
  kv_shared::Entry entry{.speculative = place.speculative};
  {
    const MutexLock lock(mutex_);
    const auto at = names_.find(holder.slot);
    if (at == names_.end() || at->second.generation != holder.generation) return std::nullopt;
    entry.pod = at->second.pod;
  }
  if (!place.speculative) entry.tier = tiers_.name(place.tier);
  if (place.group) entry.group = *place.group;
  return entry;
}

void PreciseStore::store(const kv::BlockRun& run) {
  local_.store(run);
  if (!shared_) return;
  if (const auto row = entry(run.holder, run.place))
    shared_->store(*row, run.keys, run.engine_keys);
}

size_t PreciseStore::store_known(const kv::Holder& holder, const kv::Place& place,
                                 std::span<const uint64_t> engine_keys) {
  if (!shared_) return local_.store_known(holder, place, engine_keys);
  std::vector<uint64_t> keys;
  for (const uint64_t engine_key : engine_keys) {
    const auto own = local_.request_key(holder, engine_key);
    const auto key = own ? own : request_key(holder, engine_key);
    if (!key || (!keys.empty() && keys.back() == *key)) continue;
    keys.push_back(*key);
    if (!own) local_.store({.holder = holder, .place = place, .keys = {&*key, 1}});
  }
  local_.store_known(holder, place, engine_keys);
  if (keys.empty()) return 0;
  if (const auto row = entry(holder, place)) shared_->store(*row, keys, {});
  return keys.size();
}

size_t PreciseStore::remove(const kv::Holder& holder, const kv::Place& place,
                            std::span<const uint64_t> engine_keys) {
  if (!shared_) return local_.remove(holder, place, engine_keys);
  size_t copies = 0;
  std::vector<uint64_t> gone;
  for (const uint64_t& key : engine_keys) {
    const size_t kept = local_.remove(holder, place, {&key, 1});
    copies += kept;
    if (kept == 0) gone.push_back(key);
  }
  if (const auto row = entry(holder, place)) shared_->remove(*row, gone);
  return copies;
}

void PreciseStore::remove_keys(const kv::Holder& holder, const kv::Place& place,
                               std::span<const uint64_t> keys) {
  local_.remove_keys(holder, place, keys);
  if (!shared_) return;
  if (const auto row = entry(holder, place)) shared_->remove_keys(*row, keys);
}

void PreciseStore::clear_shared(const kv::Holder& holder) {
  if (!shared_) return;
  if (const auto row = entry(holder, {})) shared_->clear(row->pod);
}

void PreciseStore::clear(const kv::Holder& holder) {
  local_.clear(holder);
  clear_shared(holder);
}

void PreciseStore::purge(const kv::Holder& holder) {
  local_.purge(holder);
  clear_shared(holder);
  const MutexLock lock(mutex_);
  if (const auto at = names_.find(holder.slot);
      at != names_.end() && at->second.generation == holder.generation)
    names_.erase(at);
}

std::optional<uint64_t> PreciseStore::request_key(const kv::Holder& holder, uint64_t engine_key) {
  if (const auto known = local_.request_key(holder, engine_key); known || !shared_) return known;
  const auto known = shared_->request_key(engine_key);
  if (known) local_.expect_keys_from_elsewhere(holder);
  return known;
}

}  // namespace llmd::kv_precise
