#pragma once

#include "base/mutex.h"
#include "kv/precise_index.h"
#include "kv_precise/tier_names.h"
#include "kv_shared/shared_index.h"

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace llmd::kv_precise {

/// What endpoints hold: the index in this process, and the one that it shares with other routers
/// where one is configured. The index in the process has what this router has heard itself; it
/// answers at once and whatever becomes of the shared one. Every change of it is a change of the
/// shared one, too, which is asked beside it.
/// Threading: as kv::PreciseIndex; the functions are those of it, with their contracts. Cost: its,
/// and a branch, without a shared one.
class PreciseStore {
 public:
  /// `shared`: null for none. Requires: `tiers` outlives the store.
  PreciseStore(const kv::PreciseIndexOptions& options, TierNames& tiers,
               std::unique_ptr<kv_shared::SharedIndex> shared = nullptr);
  ~PreciseStore();

  /// Null: there is none.
  kv_shared::SharedIndex* shared() const { return shared_.get(); }
  /// Whom a holder is known as to others. Requires: before its first blocks.
  void name(const kv::Holder& holder, std::string_view pod);

  /// Of the index in this process.
  void match(std::span<const uint64_t> chain, std::span<const kv::Holder> holders,
             std::span<kv::PrefixHit> hits) const {
    local_.match(chain, holders, tiers_.weights(), hits);
  }
  void touch(std::span<const uint64_t> chain) { local_.touch(chain); }
  size_t holdings_of(const kv::Holder& holder) const { return local_.holdings_of(holder); }
  kv::PreciseIndexStats stats() const { return local_.stats(); }
  std::string check() const { return local_.check(); }

  void store(const kv::BlockRun& run);
  size_t store_known(const kv::Holder& holder, const kv::Place& place,
                     std::span<const uint64_t> engine_keys);
  size_t remove(const kv::Holder& holder, const kv::Place& place,
                std::span<const uint64_t> engine_keys);
  void remove_keys(const kv::Holder& holder, const kv::Place& place,
                   std::span<const uint64_t> keys);
  void clear(const kv::Holder& holder);
  void purge(const kv::Holder& holder);
  /// Asks the shared index for what this router has not heard of, and waits for it: not for loops.
  std::optional<uint64_t> request_key(const kv::Holder& holder, uint64_t engine_key);

 private:
  /// Nothing when the holder has no name.
  std::optional<kv_shared::Entry> entry(const kv::Holder& holder, const kv::Place& place) const;
  void clear_shared(const kv::Holder& holder);

  TierNames& tiers_;
  kv::PreciseIndex local_;
  const std::unique_ptr<kv_shared::SharedIndex> shared_;
  struct Named {
    uint64_t generation = 0;
    std::string pod;
  };
  mutable Mutex mutex_;
  std::map<uint32_t, Named> names_ LLMD_GUARDED_BY(mutex_);  // by slot
};

}  // namespace llmd::kv_precise
