#pragma once

#include "base/mutex.h"
#include "fleet/endpoint.h"
#include "kv/block_keys.h"
#include "kv_events/subscriber.h"
#include "kv_precise/index_counts.h"
#include "kv_precise/precise_feed.h"
#include "kv_precise/precise_params.h"
#include "kv_precise/precise_store.h"
#include "kv_precise/promise_book.h"
#include "kv_precise/speculative_blocks.h"
#include "plugin/registry.h"

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <string_view>

namespace llmd::kv_precise {

/// Of what endpoints hold of a chain, the most.
inline uint32_t longest(std::span<const kv::PrefixHit> hits) {
  uint32_t most = 0;
  for (const auto& hit : hits) most = std::max(most, hit.blocks);
  return most;
}

/// What endpoints hold by their own account: the index, the feed that fills it, and who is listened
/// to. Lives as long as a configuration uses it; the next one goes on with it when its parameters
/// are the same. Listens to nobody before the first endpoint is there.
/// Threading: any.
class PreciseCache final : public fleet::MembershipListener {
 public:
  /// The one of the plugin's name and these parameters, printed in `settings`. Requires:
  /// complete(params).
  static std::shared_ptr<PreciseCache> of(const PreciseParams& params, std::string settings,
                                          const plugin::Context& context);

  /// `before`: what these parameters replace; it stops to listen once this starts to.
  PreciseCache(const PreciseParams& params, const plugin::Context& context,
               std::weak_ptr<PreciseCache> before);
  ~PreciseCache() override;

  void on_added(const fleet::EndpointPtr& endpoint) override;
  void on_removed(const fleet::EndpointPtr& endpoint) override;

  const kv::BlockKeys& keys() const { return keys_; }
  const TierNames& tiers() const { return tiers_; }
  PreciseFeed& feed() { return feed_; }
  /// What `holders` have of the chain. Counts a look-up. Requires: `hits` is zeroed.
  void match(std::span<const uint64_t> chain, std::span<const kv::Holder> holders,
             std::span<kv::PrefixHit> hits) const;
  /// Null unless several routers share an index.
  kv_shared::SharedIndex* shared() const { return index_.shared(); }
  /// The chain is going to be used.
  void touch(std::span<const uint64_t> chain) { index_.touch(chain); }

  /// The endpoint is going to hold the chain: believed for a while if the parameters say so, or
  /// while nothing better is known of it, because what it said proved wrong.
  void expect(const fleet::Endpoint& endpoint, std::span<const uint64_t> chain);
  /// The request for which that was expected has failed.
  void withdraw(const fleet::Endpoint& endpoint, std::span<const uint64_t> chain);
  /// Ends what was expected long enough ago.
  void expire();
  /// An answer has come to its end; see PromiseBook.
  void compare(const fleet::Endpoint& endpoint, const PromiseBook::Outcome& outcome);

  /// {"subscribers": [{"pod", "blocks", "partial"}], "totalSubscribers", "maxSubscribers",
  /// "speculativeIndexing", "speculativeEntries": [{"endpoint", "blocks"}],
  /// "totalSpeculativeEntries", "maxSpeculativeEntries", "promises": [{"endpoint",
  /// "trusted", "promised", "broken"}], "totalPromises", "blockSizeTokens", "index"}.
  std::string dump() const;

 private:
  std::string id_of(const kv::Holder& holder) const;
  void listen() LLMD_REQUIRES(mutex_);
  void stop();

  const PreciseParams params_;
  metric::Registry& registry_;
  const Clock& clock_;
  const std::unique_ptr<IndexCounts> counts_;  // null unless the parameters ask for them
  TierNames tiers_;
  const kv::BlockKeys keys_;
  PreciseStore index_;
  PreciseFeed feed_;
  std::unique_ptr<SpeculativeBlocks> speculative_;  // null unless the parameters ask for them
  SpeculativeBlocks approximate_;                   // of endpoints that are not trusted
  PromiseBook promises_;
  std::shared_ptr<void> collector_;
  std::unique_ptr<IndexBeat> beat_;  // null unless the parameters ask for it

  mutable Mutex mutex_;
  std::weak_ptr<PreciseCache> before_ LLMD_GUARDED_BY(mutex_);
  std::map<uint32_t, fleet::EndpointPtr> present_ LLMD_GUARDED_BY(mutex_);  // by slot
  bool stopped_ LLMD_GUARDED_BY(mutex_) = false;
  std::unique_ptr<kv_events::Subscriber> subscriber_ LLMD_GUARDED_BY(mutex_);
};

}  // namespace llmd::kv_precise
