#pragma once

#include "base/clock.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

namespace llmd::plugins {

/// Which endpoint each session is bound to, by hashes of both.
///
/// Bounded: entries stand in buckets of kWays; a new session takes the place of the one in its
/// bucket that was seen longest ago. A session not seen for longer than the given time is not
/// found, whether or not its entry is still there.
/// Threading: any, without locks. Two loops that bind one session at the same moment may leave two
/// entries; the first one is found, the other ages.
class SessionTable {
 public:
  /// A power of two.
  static constexpr size_t kSessionsMax = size_t{1} << 16;
  /// Ids are kept with so many bits.
  static constexpr uint64_t kIdMask = (uint64_t{1} << 40) - 1;

  SessionTable();

  /// The endpoint (its id's hash, masked) that the session is bound to, if it was seen at most
  /// `ttl` ago. Requires: session is not 0.
  std::optional<uint64_t> find(uint64_t session, TimePoint now, Nanos ttl) const;
  /// Binds the session, or refreshes it.
  void bind(uint64_t session, uint64_t endpoint, TimePoint now);
  size_t size(TimePoint now, Nanos ttl) const;

 private:
  static constexpr size_t kWays = 8;
  static constexpr size_t kBuckets = kSessionsMax / kWays;

  /// `session` 0: free; kBusy: being replaced. `bound`: id in the high 40 bits, the second in which
  /// it was last seen in the low 24.
  struct Entry {
    std::atomic<uint64_t> session{0};
    std::atomic<uint64_t> bound{0};
  };
  using Bucket = std::array<Entry, kWays>;

  Bucket& bucket_of(uint64_t session) const { return (*buckets_)[session % kBuckets]; }

  const std::unique_ptr<std::array<Bucket, kBuckets>> buckets_;
};

}  // namespace llmd::plugins
