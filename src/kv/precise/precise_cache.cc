#include "kv_precise/precise_cache.h"

#include "shared_cell.h"

#include "base/log.h"
#include "base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace llmd::kv_precise {
namespace {

using metric::Definition;
using metric::Kind;

constexpr size_t kDumpMax = 100;
/// For which an endpoint that is not trusted is believed to hold what it was sent.
constexpr Nanos kApproximateTtl = std::chrono::minutes(1);

Definition family(Kind kind, std::string_view name, std::string_view help,
                  std::string_view twin = {}) {
  Definition definition{
      .name = name, .kind = kind, .help = help, .labels = {}, .buckets = {}, .twins = {}};
  if (!twin.empty()) definition.twins = {{twin}};
  return definition;
}

Definition skipped(std::string_view name, std::string_view help) {
  Definition definition = family(Kind::kCounter, name, help);
  definition.labels = {"cache_kind", "reason"};
  return definition;
}

const Definition kSuppressed =
    family(Kind::kCounter, "llm_d_epp_kv_cache_events_dedup_removed_hashes_suppressed_total",
           "Removed blocks of which another copy stays.",
           "kvcache_kvevents_dedup_removed_hashes_suppressed_total");
const Definition kForwarded =
    family(Kind::kCounter, "llm_d_epp_kv_cache_events_dedup_removed_hashes_forwarded_total",
           "Removed blocks of which no copy stays.",
           "kvcache_kvevents_dedup_removed_hashes_forwarded_total");
const Definition kSkippedStores = skipped("llm_d_epp_kv_cache_events_stores_skipped_total",
                                          "Events of stored blocks that do not count.");
const Definition kSkippedRemovals = skipped("llm_d_epp_kv_cache_events_removals_skipped_total",
                                            "Events of removed blocks that do not count.");
const Definition kOrphans =
    family(Kind::kCounter, "llmd_kv_event_orphans_total",
           "Events of blocks behind one that is not known, which do not count.");
const Definition kUnknownPods = family(Kind::kCounter, "llmd_kv_events_of_unknown_pods_total",
                                       "KV events of pods that are no endpoints.");
const Definition kBlocks =
    family(Kind::kGauge, "llmd_kv_index_blocks", "Different blocks that endpoints hold.");
const Definition kBytes = family(Kind::kGauge, "llmd_kv_index_bytes", "Memory of the index.");

FeedMetrics feed_metrics(metric::Registry& registry, IndexCounts* index) {
  return {.index = index,
          .suppressed = registry.family(kSuppressed).counter({}),
          .forwarded = registry.family(kForwarded).counter({}),
          .orphans = registry.family(kOrphans).counter({}),
          .unknown_pods = registry.family(kUnknownPods).counter({}),
          .skipped_stores = &registry.family(kSkippedStores),
          .skipped_removals = &registry.family(kSkippedRemovals)};
}

/// N of an endpoint that is called NAME-rank-N; else 0.
uint16_t rank_of(std::string_view name) {
  constexpr std::string_view kMark = "-rank-";
  const auto at = name.rfind(kMark);
  const auto rank = at == name.npos ? std::nullopt : parse_int(name.substr(at + kMark.size()));
  return rank && *rank >= 0 && *rank <= 1023 ? static_cast<uint16_t>(*rank) : 0;
}

kv::Holder holder(const fleet::Endpoint& endpoint) {
  return {.slot = endpoint.slot(), .generation = endpoint.generation()};
}

std::unique_ptr<kv_shared::SharedIndex> shared_index(const PreciseParams& params,
                                                     metric::Registry& registry, TierNames& tiers) {
  if (!params.shared) return nullptr;
  return std::make_unique<kv_shared::SharedIndex>(
      kv_shared::SharedIndexOptions{
          .address = *params.shared,
          .weight = [&tiers](std::string_view tier) { return tiers.weight(tier); }},
      registry, kSharedCell);
}

/// What the plugins of one name have used last.
struct LastCache {
  Mutex mutex;
  std::weak_ptr<PreciseCache> cache LLMD_GUARDED_BY(mutex);
  std::string settings LLMD_GUARDED_BY(mutex);
};

}  // namespace

std::shared_ptr<PreciseCache> PreciseCache::of(const PreciseParams& params, std::string settings,
                                               const plugin::Context& context) {
  const auto last = context.state.get<LastCache>(context.name, [] { return new LastCache; });
  const MutexLock lock(last->mutex);
  if (auto cache = last->cache.lock(); cache && last->settings == settings) return cache;
  auto cache = std::make_shared<PreciseCache>(params, context, last->cache);
  last->cache = cache;
  last->settings = std::move(settings);
  return cache;
}

PreciseCache::PreciseCache(const PreciseParams& params, const plugin::Context& context,
                           std::weak_ptr<PreciseCache> before)
    : params_(params),
      registry_(context.metrics),
      clock_(context.clock),
      counts_(params.indexer.index.metrics ? std::make_unique<IndexCounts>(registry_) : nullptr),
      tiers_(params.indexer.tiers),
      keys_(params.algorithm, params.tokens.hash_seed,
            static_cast<size_t>(params.tokens.block_tokens)),
      index_({.blocks_max = static_cast<size_t>(params.indexer.index.in_memory.size),
              .bytes_max = params.bytes_max},
             tiers_, shared_index(params, registry_, tiers_)),
      feed_(index_, tiers_, keys_, feed_metrics(registry_, counts_.get())),
      approximate_(index_, kApproximateTtl),
      promises_(registry_),
      before_(std::move(before)) {
  if (const auto every = params.indexer.index.logging_interval; counts_ && every > Nanos(0))
    beat_ = std::make_unique<IndexBeat>(*counts_, every, clock_);
  if (params.speculative) speculative_ = std::make_unique<SpeculativeBlocks>(index_, params.ttl);
  collector_ = registry_.on_collect([this, blocks = registry_.family(kBlocks).gauge({}),
                                     bytes = registry_.family(kBytes).gauge({})] {
    const auto stats = index_.stats();
    blocks.set(static_cast<double>(stats.blocks));
    bytes.set(static_cast<double>(stats.bytes));
  });
}

PreciseCache::~PreciseCache() {
  stop();
}

void PreciseCache::listen() {
  const auto& events = params_.events;
  if (auto* const shared = index_.shared()) shared->open();
  if (subscriber_ || stopped_ || (events.endpoint.empty() && !events.discover)) return;
  if (const auto before = std::exchange(before_, {}).lock()) before->stop();
  auto started = kv_events::Subscriber::start({.adapter = params_.adapter,
                                               .threads = static_cast<size_t>(events.threads),
                                               .bind_endpoint = events.endpoint,
                                               .topic_filter = events.topic_filter},
                                              feed_, registry_, kSharedCell, clock_);
  if (started)
    subscriber_ = std::move(*started);
  else
    log::error("KV events are not received", {{"error", started.error().message}});
}

/// What is known stays, and does not change any more.
void PreciseCache::stop() {
  std::unique_ptr<kv_events::Subscriber> subscriber;  // ends without the lock
  const MutexLock lock(mutex_);
  stopped_ = true;
  subscriber = std::move(subscriber_);
}

void PreciseCache::on_added(const fleet::EndpointPtr& endpoint) {
  promises_.on_added(endpoint);
  feed_.add_endpoint(endpoint->host_port(), holder(*endpoint));
  const MutexLock lock(mutex_);
  present_[endpoint->slot()] = endpoint;
  listen();
  if (!subscriber_ || !params_.events.discover) return;
  const auto& spec = endpoint->spec();
  const auto rank = rank_of(spec.name);
  const auto& ports = params_.events.discovery;
  if (std::max(ports.socket_port, ports.replay_port) + rank > UINT16_MAX)
    return log::error("KV events of an endpoint cannot be followed: its rank has no port",
                      {{"endpoint", endpoint->id()}, {"rank", rank}});
  const auto at = [&](int64_t port) {
    return kv_events::tcp_endpoint(spec.address, static_cast<uint16_t>(port + rank));
  };
  subscriber_->follow({.id = endpoint->id(),
                       .pod = endpoint->host_port(),
                       .owner = endpoint->generation(),
                       .endpoint = at(ports.socket_port),
                       .replay_endpoint = ports.replay_port > 0 ? at(ports.replay_port) : "",
                       .model = {}});
}

void PreciseCache::on_removed(const fleet::EndpointPtr& endpoint) {
  promises_.on_removed(endpoint);
  feed_.remove_endpoint(endpoint->host_port(), holder(*endpoint));
  const MutexLock lock(mutex_);
  const auto at = present_.find(endpoint->slot());
  if (at != present_.end() && at->second->generation() == endpoint->generation())
    present_.erase(at);
  if (!subscriber_) return;
  if (params_.events.discover) subscriber_->unfollow(endpoint->id());
  subscriber_->forget_pod(endpoint->host_port());
}

void PreciseCache::match(std::span<const uint64_t> chain, std::span<const kv::Holder> holders,
                         std::span<kv::PrefixHit> hits) const {
  if (!counts_) return index_.match(chain, holders, hits);
  const TimePoint before = clock_.now();
  index_.match(chain, holders, hits);
  counts_->looked_up(longest(hits), clock_.now() - before);
}

void PreciseCache::expect(const fleet::Endpoint& endpoint, std::span<const uint64_t> chain) {
  auto* const blocks = promises_.trusted(endpoint) ? speculative_.get() : &approximate_;
  if (blocks) blocks->add(holder(endpoint), chain, clock_.now());
}

void PreciseCache::withdraw(const fleet::Endpoint& endpoint, std::span<const uint64_t> chain) {
  if (speculative_) speculative_->withdraw(holder(endpoint), chain);
  approximate_.withdraw(holder(endpoint), chain);
}

void PreciseCache::expire() {
  approximate_.expire(clock_.now());
  if (speculative_) speculative_->expire(clock_.now());
}

void PreciseCache::compare(const fleet::Endpoint& endpoint, const PromiseBook::Outcome& outcome) {
  if (!promises_.note(endpoint, outcome)) return;
  feed_.distrust(endpoint.host_port(), holder(endpoint));
  log::warn(
      "an endpoint reuses less of prompts than its KV events promise: what they told is forgotten",
      {{"endpoint", endpoint.id()}});
}

std::string PreciseCache::dump() const {
  const auto publishers = feed_.publishers();
  std::string out = R"({"subscribers":[)";
  const auto comma = [&] { out += out.back() == '[' ? "" : ","; };
  for (size_t i = 0; i < std::min(publishers.size(), kDumpMax); ++i) {
    comma();
    out += R"({"pod":")";
    append_json_escaped(out, publishers[i].pod);
    out +=
        fmt::format(R"(","blocks":{},"partial":{}}})", publishers[i].blocks, publishers[i].partial);
  }
  out += fmt::format(R"(],"totalSubscribers":{},"maxSubscribers":{},"speculativeIndexing":{},)",
                     publishers.size(), kDumpMax, speculative_ != nullptr);
  size_t total = 0;
  out += R"("speculativeEntries":[)";
  if (speculative_) {
    for (const auto& [holder, blocks] : speculative_->oldest(kDumpMax, total)) {
      const auto id = id_of(holder);
      if (id.empty()) continue;
      comma();
      out += R"({"endpoint":")";
      append_json_escaped(out, id);
      out += fmt::format(R"(","blocks":{}}})", blocks);
    }
  }
  out += fmt::format(R"(],"totalSpeculativeEntries":{},"maxSpeculativeEntries":{},"promises":[)",
                     total, kDumpMax);
  const auto promises = promises_.states();
  for (size_t i = 0; i < std::min(promises.size(), kDumpMax); ++i) {
    comma();
    out += R"({"endpoint":")";
    append_json_escaped(out, promises[i].endpoint);
    out += fmt::format(R"(","trusted":{},"promised":{:.0f},"broken":{:.0f}}})", promises[i].trusted,
                       promises[i].promised, promises[i].broken);
  }
  const auto stats = index_.stats();
  return out + fmt::format(R"(],"totalPromises":{},)"
                           R"("blockSizeTokens":{},"index":{{"blocks":{},"holdings":{},)"
                           R"("bytes":{},"evicted":{}}}}})",
                           promises.size(), keys_.block_tokens(), stats.blocks, stats.holdings,
                           stats.bytes, stats.evicted);
}

/// "" when it is gone.
std::string PreciseCache::id_of(const kv::Holder& holder) const {
  const MutexLock lock(mutex_);
  const auto at = present_.find(holder.slot);
  return at != present_.end() && at->second->generation() == holder.generation ? at->second->id()
                                                                               : "";
}

}  // namespace llmd::kv_precise
