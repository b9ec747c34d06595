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

/// Which endpoint was sent which media. Outlives configurations. Threading: any.
class MediaIndex final : public fleet::MembershipListener {
 public:
  MediaIndex(metric::Registry& registry, std::string_view plugin_name) {
    const std::array<std::string_view, 2> labels = {kType, plugin_name};
    hit_ratio = registry.family(kHitRatio).histogram(labels);
  }

  void on_added(const fleet::EndpointPtr& endpoint) override {
    const MutexLock lock(mutex_);
    present_[endpoint->slot()] = endpoint;
  }
  void on_removed(const fleet::EndpointPtr& endpoint) override {
    index.purge(endpoint->slot(), endpoint->generation());
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

 private:
  mutable Mutex mutex_;
  std::map<uint32_t, fleet::EndpointPtr> present_ LLMD_GUARDED_BY(mutex_);  // by slot
};

/// Spreads the bits of an item's token, as the index wants its keys.
uint64_t key_of(uint32_t token) {
  uint64_t key = token + 0x9e3779b97f4a7c15;
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
    for (const auto& candidate : context.candidates)
      slots = std::max(slots, candidate.endpoint->slot() + 1);
    const auto held = context.arena.array<uint32_t>(slots);
    for (const uint64_t& item : items) index_->index.match({&item, 1}, held);
    for (size_t i = 0; i < matches.size(); ++i)
      matches[i] = {.matched = held[context.candidates[i].endpoint->slot()],
                    .total = static_cast<int64_t>(items.size())};
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
      for (const uint64_t& item : items) index_->index.commit(owner, {&item, 1});
    }
    return {};
  }

  std::string dump_state() const override { return index_->dump(); }

 private:
  using Items = std::span<const uint64_t>;

  /// The different media of all prompts.
  static Items items_of(RequestContext& context) {
    ArenaList<uint64_t> items(context.arena);
    if (!context.request) return {};
    for (const auto& prompt : context.request->prompts)
      for (const auto& piece : prompt.pieces)
        if (piece.kind == request::Piece::Kind::kPlaceholder) items.push_back(key_of(piece.token));
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
