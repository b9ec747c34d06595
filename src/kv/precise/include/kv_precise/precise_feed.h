#pragma once

#include "base/mutex.h"
#include "kv/block_keys.h"
#include "kv_events/event_sink.h"
#include "kv_precise/index_counts.h"
#include "kv_precise/precise_store.h"
#include "kv_precise/tier_names.h"
#include "metric/registry.h"

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace llmd::kv_precise {

/// Counters of a feed; handles that are not made write nothing.
struct FeedMetrics {
  IndexCounts* index = nullptr;                // null: they are not counted
  metric::Counter suppressed;                  // removed blocks of which another copy stays
  metric::Counter forwarded;                   // and the others
  metric::Counter orphans;                     // stores behind a block that is not known
  metric::Counter unknown_pods;                // events of pods that are no endpoints
  metric::Family* skipped_stores = nullptr;    // events, by cache kind and reason
  metric::Family* skipped_removals = nullptr;  // the same
};

/// Applies what engines say of their caches to the precise index (spec 05 §6).
///
/// Request keys are made from the tokens of the events; what the engine calls a block only finds it
/// again, for its removal and as parent. Events count for the endpoint that has the publisher's
/// "address:port"; what comes before it is one, or after, has no effect. Where blocks of the index
/// are larger than the engine's, what does not fill one waits for the rest (PartialBlocks).
///
/// Never more is believed than was said: a block is counted once however many cache groups hold it,
/// and groups that do not make a prefix reusable by themselves are left out. When batches are
/// missing, all that the endpoint holds is forgotten, since some of it may be gone: the view is
/// partial until the cache is known to be empty.
///
/// Threading: the sink's calls as EventSink says; all others from any thread.
class PreciseFeed final : public kv_events::EventSink {
 public:
  /// Requires: `index` and `tiers` outlive the feed.
  PreciseFeed(PreciseStore& index, TierNames& tiers, const kv::BlockKeys& keys,
              FeedMetrics metrics = {});
  ~PreciseFeed() override;

  /// The endpoint that has this "address:port" from now on.
  void add_endpoint(std::string_view pod, const kv::Holder& holder);
  /// Forgets its blocks for good.
  void remove_endpoint(std::string_view pod, const kv::Holder& holder);

  /// Forgets the endpoint's blocks, since some of them proved to be wrong.
  void distrust(std::string_view pod, const kv::Holder& holder);

  void on_joined(kv_events::Publisher& publisher) override;
  void on_batch(kv_events::Publisher& publisher, std::string_view model,
                const kv_events::Batch& batch) override;
  void on_lost(kv_events::Publisher& publisher, uint64_t batches) override;
  void on_reset(kv_events::Publisher& publisher) override;
  void on_left(kv_events::Publisher& publisher) override;

  /// What is known of a publisher, for debug pages.
  struct PublisherState {
    std::string pod;
    size_t blocks = 0;     // that its endpoint holds
    bool partial = false;  // it may hold more
  };
  /// Sorted by pod.
  std::vector<PublisherState> publishers() const;

 private:
  class View;

  std::optional<kv::Holder> holder_of(std::string_view pod) const;

  PreciseStore& index_;
  TierNames& tiers_;
  const kv::BlockKeys keys_;
  const FeedMetrics metrics_;
  std::atomic<uint64_t> membership_{1};  // counts its changes
  mutable Mutex mutex_;
  std::map<std::string, kv::Holder, std::less<>> endpoints_ LLMD_GUARDED_BY(mutex_);
  std::map<const View*, std::unique_ptr<View>> views_ LLMD_GUARDED_BY(mutex_);
};

}  // namespace llmd::kv_precise
