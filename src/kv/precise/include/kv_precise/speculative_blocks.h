#pragma once

#include "base/clock.h"
#include "base/mutex.h"
#include "kv_precise/precise_store.h"

#include <atomic>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

namespace llmd::kv_precise {

/// What endpoints were sent a moment ago and will tell of soon: held in the index for a time, each
/// request on its own, so that one's end does not take another's blocks. Expired by whoever looks,
/// a few requests at a time.
/// Threading: any.
class SpeculativeBlocks {
 public:
  /// Keys that are held at a time; what is beyond is not believed.
  static constexpr size_t kKeysMax = size_t{1} << 22;

  SpeculativeBlocks(PreciseStore& index, Nanos ttl) : index_(index), ttl_(ttl) {}

  void add(const kv::Holder& holder, std::span<const uint64_t> chain, TimePoint now);
  /// Takes back what was added last of this; nothing when that has expired. Cost: a look at all
  /// that is held.
  void withdraw(const kv::Holder& holder, std::span<const uint64_t> chain);
  /// Cost: an atomic read when nothing is due.
  void expire(TimePoint now);

  struct State {
    kv::Holder holder;
    size_t blocks = 0;
  };
  /// The oldest `limit`, and how many there are.
  std::vector<State> oldest(size_t limit, size_t& total) const;

 private:
  struct Entry {
    TimePoint until;
    kv::Holder holder;
    std::vector<uint64_t> chain;
  };
  void note_next() LLMD_REQUIRES(mutex_);

  PreciseStore& index_;
  const Nanos ttl_;
  std::atomic<TimePoint> next_{TimePoint::max()};  // when the oldest is due
  mutable Mutex mutex_;
  std::deque<Entry> entries_ LLMD_GUARDED_BY(mutex_);  // the oldest first
  size_t keys_ LLMD_GUARDED_BY(mutex_) = 0;
};

}  // namespace llmd::kv_precise
