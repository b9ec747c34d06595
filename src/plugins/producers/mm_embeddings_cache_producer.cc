#include "media_match.h"

#include "base/arena_list.h"
#include "base/mutex.h"
#include "base/text.h"
#include "kv/approx_index.h"
#include "metric/buckets.h"
#include "plugin/registry.h"
#include "schedule/attributes.h"
#include "schedule/interfaces.h"
#include "schedule/wiring.h"

#include <algorithm>
#include <array>
#include <map>

namespace llmd::plugins {
namespace {

using schedule::RequestContext;

constexpr std::string_view kType = "mm-embeddings-cache-producer";
constexpr int64_t kDefaultMegabytes = 4096;
constexpr int64_t kItemMegabytes = 2;
constexpr size_t kDumpMax = 100;

struct Params {
  int64_t megabytes = kDefaultMegabytes;
};

const plugin::Params<Params>& table() {
  static const plugin::Params<Params> params = {
      plugin::field("cacheSizeInMBPerServer", &Params::megabytes, "MB",
                    "Encoder cache of an endpoint, at 2 MB an item; the default when 0 or less."),
  };
  return params;
}

const metric::Definition kHitRatio = {.name = "llm_d_epp_encoder_cache_hit_ratio",
                                      .kind = metric::Kind::kHistogram,
                                      .help =
                                          "Share of a request's media that the chosen endpoint is "
                                          "believed to have encoded.",
                                      .labels = {"plugin_type", "plugin_name"},
                                      .buckets = metric::buckets::kHitr,
                                      .twins = {}};

const metric::Definition kQueries = {.name = "llm_d_epp_encoder_cache_queries_total",
                                     .kind = metric::Kind::kCounter,
                                     .help = "Different media in requests.",
                                     .labels = {"plugin_type", "plugin_name", "modality"},
                                     .buckets = {},
                                     .twins = {}};
const metric::Definition kHits = {.name = "llm_d_epp_encoder_cache_hits_total",
                                  .kind = metric::Kind::kCounter,
                                  .help =
                                      "Of these, those that an endpoint is believed to have "
                                      "encoded, for each endpoint.",
                                  .labels = {"plugin_type", "plugin_name", "pod", "modality"},
                                  .buckets = {},
                                  .twins = {}};

/// Which endpoint was sent which media. Outlives configurations. Threading: any.
class MediaIndex final : public fleet::MembershipListener {
 public:
  MediaIndex(metric::Registry& registry, std::string_view plugin_name)
      : hits_(registry.family(kHits)), plugin_name_(plugin_name) {
    const std::array<std::string_view, 2> labels = {kType, plugin_name};
    hit_ratio = registry.family(kHitRatio).histogram(labels);
    for (size_t m = 0; m < request::kModalities; ++m)
      queries[m] = registry.family(kQueries).counter(
          std::array<std::string_view, 3>{kType, plugin_name, name_of(m)});
  }

  void count_hits(const fleet::Endpoint& endpoint, size_t modality, uint32_t hits) {
    hits_
        .counter(
            std::array<std::string_view, 4>{kType, plugin_name_, endpoint.id(), name_of(modality)})
        .add(hits);
  }

  void on_added(const fleet::EndpointPtr& endpoint) override {
    const MutexLock lock(mutex_);
    present_[endpoint->slot()] = endpoint;
  }
  void on_removed(const fleet::EndpointPtr& endpoint) override {
    index.purge(endpoint->slot(), endpoint->generation());
    hits_.forget("pod", endpoint->id());
    const MutexLock lock(mutex_);
    const auto at = present_.find(endpoint->slot());
    if (at != present_.end() && at->second->generation() == endpoint->generation())
      present_.erase(at);
  }

  /// {"podList", "totalKnownPods", "pods": [{"pod", "items"}], "totalPods", "maxPods"}.
  std::string dump() const {
    const MutexLock lock(mutex_);
    std::string known, holding;
    size_t listed = 0, pods = 0;
    for (const auto& [slot, endpoint] : present_) {
      std::string id = "\"";
      append_json_escaped(id, endpoint->id());
      id += '"';
      if (listed++ < kDumpMax) known += (known.empty() ? "" : ",") + id;
      const size_t items = index.blocks_of(slot, endpoint->generation());
      if (items == 0 || pods++ >= kDumpMax) continue;
      holding += (holding.empty() ? R"({"pod":)" : R"(,{"pod":)") + id + R"(,"items":)" +
                 std::to_string(items) + "}";
    }
    return R"({"podList":[)" + known + R"(],"totalKnownPods":)" + std::to_string(listed) +
           R"(,"pods":[)" + holding + R"(],"totalPods":)" + std::to_string(pods) +
           R"(,"maxPods":)" + std::to_string(kDumpMax) + "}";
  }

  kv::ApproxIndex index;  // each item is a chain of its own
  metric::Histogram hit_ratio;
  std::array<metric::Counter, request::kModalities> queries;

 private:
  static std::string_view name_of(size_t modality) {
    return request::modality_name(static_cast<request::Modality>(modality));
  }

  metric::Family& hits_;
  const std::string plugin_name_;
  mutable Mutex mutex_;
  std::map<uint32_t, fleet::EndpointPtr> present_ LLMD_GUARDED_BY(mutex_);  // by slot
};

/// An image, audio or video of a request.
struct Item {
  size_t modality;
  uint64_t key;
  auto operator<=>(const Item&) const = default;
};

/// Spreads the bits of an item's hash, as the index wants its keys.
uint64_t key_of(uint64_t hash) {
  uint64_t key = hash + 0x9e3779b97f4a7c15;
  key = (key ^ (key >> 30)) * 0xbf58476d1ce4e5b9;
  return key ^ (key >> 27);
}

class MmEmbeddingsCacheProducer final : public schedule::Producer, public schedule::PreRequest {
 public:
  MmEmbeddingsCacheProducer(Params p, const plugin::Context& context)
      : capacity_(static_cast<size_t>(std::max<int64_t>(
            1, (p.megabytes > 0 ? p.megabytes : kDefaultMegabytes) / kItemMegabytes))),
        index_(context.state.get<MediaIndex>(
            context.name, [&] { return new MediaIndex(context.metrics, context.name); })) {}

  void wire(schedule::Wiring& wiring) override {
    wiring.consumes<schedule::TokenizedPrompt>("token-producer", schedule::Need::kRequired);
    matches_ = wiring.produces<MediaMatch>();
    items_ = wiring.request_slot<Items>();
    wiring.listen(index_);
  }

  Result<schedule::Progress> produce(RequestContext& context) const override {
    const auto items = items_of(context);
    context.slot(items_) = items;
    if (items.empty()) return schedule::Progress::kDone;
    const auto matches = context.write(matches_);
    uint32_t slots = 0;
    for (const auto& candidate : context.candidates) slots = std::max(slots, candidate.slot + 1);
    for (auto& match : matches) match.total = static_cast<int64_t>(items.size());
    for (size_t m = 0; m < request::kModalities; ++m) {
      const auto of_kind = std::ranges::equal_range(items, m, {}, &Item::modality);
      if (of_kind.empty()) continue;
      index_->queries[m].add(static_cast<double>(of_kind.size()));
      const auto held = context.arena.array<uint32_t>(slots);
      for (const Item& item : of_kind) index_->index.match({&item.key, 1}, held);
      for (size_t i = 0; i < matches.size(); ++i) {
        const auto& endpoint = *context.candidates[i].endpoint;
        const uint32_t hits = held[endpoint.slot()];
        matches[i].matched += hits;
        if (hits > 0) index_->count_hits(endpoint, m, hits);
      }
    }
    return schedule::Progress::kDone;
  }

  Status pre_request(RequestContext& context) const override {
    const auto items = context.slot(items_);
    if (items.empty()) return {};
    const auto targets = context.results[context.primary].targets;
    const MediaMatch& match = context.read(matches_)[targets[0]];
    index_->hit_ratio.observe(static_cast<double>(match.matched) /
                              static_cast<double>(match.total));
    for (const uint32_t target : targets) {
      const auto& endpoint = *context.candidates[target].endpoint;
      const kv::BlockOwner owner{endpoint.slot(), endpoint.generation(), capacity_};
      for (const Item& item : items) index_->index.commit(owner, {&item.key, 1});
    }
    return {};
  }

  std::string dump_state() const override { return index_->dump(); }

 private:
  using Items = std::span<const Item>;

  /// The different media of all prompts, by modality.
  static Items items_of(RequestContext& context) {
    ArenaList<Item> items(context.arena);
    if (!context.request) return {};
    const auto add = [&items](request::Modality modality, uint64_t hash) {
      items.push_back({static_cast<size_t>(modality), key_of(hash)});
    };
    for (const auto& prompt : context.request->prompts) {
      for (const auto& piece : prompt.pieces)
        if (piece.kind == request::Piece::Kind::kPlaceholder) add(piece.modality, piece.token);
      for (const auto& media : prompt.media)
        if (!media.hash.empty()) add(media.modality, fleet::detail_key(media.hash));
    }
    std::ranges::sort(items.view());
    const auto repeated = std::ranges::unique(items.view());
    return items.view().first(items.size() - repeated.size());
  }

  const size_t capacity_;  // items an endpoint holds
  const std::shared_ptr<MediaIndex> index_;
  schedule::Produced<MediaMatch> matches_;
  schedule::RequestSlot<Items> items_;
};

}  // namespace

const plugin::Descriptor& mm_embeddings_cache_producer() {
  static const auto descriptor = plugin::describe<MmEmbeddingsCacheProducer>(
      {.type = kType,
       .kind = "producer",
       .summary = "Guesses from where earlier requests went which endpoint has encoded which "
                  "images, audio and video.",
       .produces_by_default = {"MultiModalEncoderCacheMatchInfoKey/mm-embeddings-cache-producer"}},
      table());
  return descriptor;
}

}  // namespace llmd::plugins
