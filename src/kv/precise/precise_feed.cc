#include "kv_precise/precise_feed.h"

#include "partial_blocks.h"

#include "base/log.h"

#include <algorithm>
#include <array>
#include <utility>

namespace llmd::kv_precise {
namespace {

using kv_events::CacheKind;
using kv_events::Event;

/// Kinds of cache whose blocks make a prefix reusable.
bool reusable(CacheKind kind) {
  return kind == CacheKind::kFullAttention || kind == CacheKind::kMlaAttention ||
         kind == CacheKind::kSinkFullAttention;
}

/// Why an event of a cache group is left out; "": it is not. `kind` is that of the group.
std::string_view objection(const Event& event, CacheKind kind) {
  if (event.group > kv::Place::kGroupMax) return "unknown_group";
  if (event.type == Event::Type::kRemoved && kind == CacheKind::kUnstated) return "unknown_group";
  if (!reusable(kind)) return "unsupported_cache_kind";
  if (event.type == Event::Type::kRemoved || event.tokens.empty()) return "";
  if (event.block_tokens == 0) return "invalid_block_size";
  return event.blocks.size() * event.block_tokens == event.tokens.size() ? ""
                                                                         : "non_dense_block_span";
}

/// Tokens of each engine block; 0 when they are not alike.
size_t engine_block_tokens(const Event& event) {
  const size_t blocks = event.blocks.size();
  return blocks != 0 && event.tokens.size() % blocks == 0 ? event.tokens.size() / blocks : 0;
}

}  // namespace

/// What one publisher has said. Threading: the thread of the publisher; pod(),
/// partial() and set_partial() any.
class PreciseFeed::View {
 public:
  View(PreciseFeed& feed, std::string pod) : feed_(feed), pod_(std::move(pod)) {}

  const std::string& pod() const { return pod_; }
  bool partial() const { return partial_.load(std::memory_order_relaxed); }
  void set_partial() { partial_.store(true, std::memory_order_relaxed); }

  void apply(std::string_view model, const kv_events::Batch& batch) {
    if (!find_holder()) {
      if (!std::exchange(named_, true))
        log::warn("KV events of a pod that is no endpoint are ignored", {{"pod", pod_}});
      set_partial();
      return feed_.metrics_.unknown_pods.add(static_cast<double>(batch.events.size()));
    }
    model_ = model;
    // Engines of different models may call blocks of the same tokens the same.
    // A shared index has engine keys as they are, for all.
    salt_ = feed_.index_.shared() ? 0 : feed_.keys_.root(model);
    for (const Event& event : batch.events) apply(event);
  }

  void forget() {
    partial_.store(false, std::memory_order_relaxed);
    if (find_holder()) feed_.index_.clear(*holder_);
  }
  /// Batches are missing. Where nothing was heard before, a shared index is others' word.
  void lose() {
    set_partial();
    if (find_holder() && feed_.index_.holdings_of(*holder_) != 0) feed_.index_.clear(*holder_);
  }
  void reset() {
    kinds_.clear();
    partials_.clear();
    forget();
  }

 private:
  /// The engine blocks of an event and what comes before them in their index block.
  struct Span {
    uint64_t parent = 0;             // what the first block's key is made from
    uint64_t before = 0;             // the same, unless it is a root
    uint64_t before_engine_key = 0;  // 0: it ends within an engine block
    size_t carried = 0;              // tokens from before
    size_t block_tokens = 0;         // of an engine block; 0: unknown
    std::span<const uint32_t> tokens;
    std::span<const uint64_t> engine_keys;
    size_t carried_keys = 0;
  };

  uint64_t engine_key(uint64_t block) const { return block ^ salt_; }

  bool find_holder() {
    const uint64_t membership = feed_.membership_.load(std::memory_order_acquire);
    if (membership != membership_) {
      membership_ = membership;
      const auto holder = feed_.holder_of(pod_);
      if (holder_ && (!holder || holder->generation != holder_->generation)) {
        kinds_.clear();  // of another engine
        partials_.clear();
      }
      holder_ = holder;
    }
    return holder_.has_value();
  }

  void apply(const Event& event) {
    if (event.type == Event::Type::kCleared) return forget();
    if (!admit(event)) return;
    if (event.type == Event::Type::kRemoved)
      remove(event);
    else if (event.tokens.empty())
      move(event);
    else
      store(event);
  }

  bool admit(const Event& event) {
    if (event.group == Event::kNoGroup) return true;
    auto kind = CacheKind::kUnstated;
    if (event.group <= kv::Place::kGroupMax) {
      if (event.cache_kind != CacheKind::kUnstated) kinds_[event.group] = event.cache_kind;
      if (const auto known = kinds_.find(event.group); known != kinds_.end()) kind = known->second;
    }
    const auto reason = objection(event, kind);
    if (reason.empty()) return true;
    metric::Family* const family = event.type == Event::Type::kStored
                                       ? feed_.metrics_.skipped_stores
                                       : feed_.metrics_.skipped_removals;
    const auto name = kv_events::cache_kind_name(kind);
    if (family) family->counter(std::array{name.empty() ? "unknown" : name, reason}).add();
    return false;
  }

  kv::Place place_of(const Event& event) const {
    kv::Place place{.tier = feed_.tiers_.number(event.medium)};
    if (event.group != Event::kNoGroup) place.group = static_cast<uint8_t>(event.group);
    return place;
  }

  void remove(const Event& event) {
    engine_keys_.clear();
    note_engine_keys(event);
    const size_t all = event.blocks.size();
    const size_t copies = feed_.index_.remove(*holder_, place_of(event), engine_keys_);
    if (auto* const index = feed_.metrics_.index) index->removed(all);
    feed_.metrics_.suppressed.add(static_cast<double>(copies));
    feed_.metrics_.forwarded.add(static_cast<double>(all - std::min(all, copies)));
  }

  /// Blocks without their tokens: known ones are in a further medium.
  void move(const Event& event) {
    engine_keys_.clear();
    note_engine_keys(event);
    count_stored(feed_.index_.store_known(*holder_, place_of(event), engine_keys_));
  }

  void store(const Event& event) {
    extras_.clear();
    const auto span = locate(event);
    if (!span) return feed_.metrics_.orphans.add();
    for (size_t i = 0; i < event.extras.size(); ++i)
      for (const auto& text : event.extras[i])
        extras_.push_back({.block = span->carried_keys + i,
                           .text = text,
                           .salt = event.salted && i == 0 && &text == &event.extras[0].back()});
    const size_t blocks = feed_.keys_.blocks_of(span->tokens.size());
    const size_t used = used_keys(*span, blocks);
    request_keys_.resize(blocks);
    feed_.keys_.chain(span->parent, span->tokens, kv::realign_extras(extras_, used, blocks),
                      request_keys_);
    if (blocks != 0)
      feed_.index_.store({.holder = *holder_,
                          .place = place_of(event),
                          .parent = span->before,
                          .parent_engine_key = span->before_engine_key,
                          .keys = request_keys_,
                          .engine_keys = span->engine_keys.first(used)});
    count_stored(request_keys_.size());
    keep_partials(*span);
  }

  /// Behind those that are there.
  void note_engine_keys(const Event& event) {
    for (const uint64_t block : event.blocks) engine_keys_.push_back(engine_key(block));
  }

  void count_stored(size_t blocks) const {
    if (auto* const index = feed_.metrics_.index; index) index->stored(blocks);
  }

  /// Where the event's blocks go on; nothing when their parent is not known.
  std::optional<Span> locate(const Event& event) {
    Span span{.block_tokens = engine_block_tokens(event), .tokens = event.tokens};
    engine_keys_.clear();
    carried_.reset();
    if (event.parent == 0) {
      span.parent = feed_.keys_.root(event.lora_name.empty() ? model_ : event.lora_name);
    } else if (const auto* before = partials_.find(engine_key(event.parent))) {
      carry(*before, event, span);
    } else {
      const auto parent = feed_.index_.request_key(*holder_, engine_key(event.parent));
      if (!parent) return std::nullopt;
      span.parent = span.before = *parent;
      span.before_engine_key = engine_key(event.parent);
    }
    note_engine_keys(event);
    span.engine_keys = engine_keys_;
    return span;
  }

  void carry(const PartialBlocks::Ref& before, const Event& event, Span& span) {
    carried_ = before.block;
    span.parent = span.before = carried_->parent;
    span.carried = before.tokens;
    span.carried_keys = before.engine_keys;
    if (span.carried_keys * span.block_tokens > span.carried) span.block_tokens = 0;
    tokens_.assign(carried_->tokens.begin(), carried_->tokens.begin() + before.tokens);
    tokens_.insert(tokens_.end(), event.tokens.begin(), event.tokens.end());
    span.tokens = tokens_;
    engine_keys_.assign(carried_->engine_keys.begin(),
                        carried_->engine_keys.begin() + before.engine_keys);
    for (const auto& extra : carried_->extras)
      if (extra.block < before.engine_keys)
        extras_.push_back({.block = extra.block, .text = extra.text, .salt = extra.salt});
  }

  /// How many engine blocks begin within the first `blocks` index blocks.
  size_t used_keys(const Span& span, size_t blocks) const {
    if (blocks == 0) return 0;
    if (span.block_tokens == 0) return span.engine_keys.size();
    const size_t tokens = blocks * feed_.keys_.block_tokens() - span.carried;
    return std::min(span.engine_keys.size(),
                    span.carried_keys + (tokens + span.block_tokens - 1) / span.block_tokens);
  }

  /// Remembers the index blocks within which engine blocks of the event end.
  void keep_partials(const Span& span) {
    const size_t size = feed_.keys_.block_tokens();
    if (span.block_tokens == 0 || (span.carried == 0 && span.block_tokens % size == 0)) return;
    std::shared_ptr<PartialBlocks::Block> block;
    size_t block_at = SIZE_MAX;
    for (size_t i = span.carried_keys; i < span.engine_keys.size(); ++i) {
      const size_t end = span.carried + (i - span.carried_keys + 1) * span.block_tokens;
      if (end % size == 0) continue;
      if (block_at != end / size) {
        block_at = end / size;
        block = partial_block(span, block_at);
      }
      const auto within = static_cast<uint32_t>(end - block_at * size);
      partials_.keep(span.engine_keys[i],
                     {.block = block,
                      .tokens = within,
                      .engine_keys = static_cast<uint32_t>(within / span.block_tokens)});
    }
  }

  std::shared_ptr<PartialBlocks::Block> partial_block(const Span& span, size_t at) {
    const size_t size = feed_.keys_.block_tokens();
    const auto tokens = span.tokens.subspan(at * size);
    auto block = std::make_shared<PartialBlocks::Block>();
    block->parent = at == 0 ? span.parent : request_keys_[at - 1];
    block->tokens.assign(tokens.begin(), tokens.begin() + std::min(size, tokens.size()));
    // Engine blocks that begin in it; the first carried one begins the first index block, or else
    // is not carried.
    const size_t carried_from = span.carried - span.carried_keys * span.block_tokens;
    const size_t first =
        at * size <= carried_from
            ? 0
            : (at * size - carried_from + span.block_tokens - 1) / span.block_tokens;
    const size_t last = std::min(span.engine_keys.size(), first + size / span.block_tokens + 1);
    for (size_t i = first; i < last; ++i) block->engine_keys.push_back(span.engine_keys[i]);
    for (const kv::Extra& extra : extras_)
      if (extra.block >= first && extra.block < last)
        block->extras.push_back(
            {.block = extra.block - first, .text = std::string(extra.text), .salt = extra.salt});
    return block;
  }

  PreciseFeed& feed_;
  const std::string pod_;
  bool named_ = false;  // in the log, as unknown
  std::atomic<bool> partial_{false};
  uint64_t membership_ = 0;  // as of which holder_ is right
  std::optional<kv::Holder> holder_;
  std::map<uint32_t, CacheKind> kinds_;  // of cache groups, at most kGroupMax + 1
  PartialBlocks partials_;
  // Of the batch and the event that are being applied.
  std::string_view model_;
  uint64_t salt_ = 0;
  std::shared_ptr<const PartialBlocks::Block> carried_;  // extras_ refer to it
  std::vector<uint32_t> tokens_;
  std::vector<uint64_t> engine_keys_;
  std::vector<uint64_t> request_keys_;
  std::vector<kv::Extra> extras_;
};

PreciseFeed::PreciseFeed(PreciseStore& index, TierNames& tiers, const kv::BlockKeys& keys,
                         FeedMetrics metrics)
    : index_(index), tiers_(tiers), keys_(keys), metrics_(metrics) {}

PreciseFeed::~PreciseFeed() = default;

void PreciseFeed::add_endpoint(std::string_view pod, const kv::Holder& holder) {
  index_.name(holder, pod);
  const MutexLock lock(mutex_);
  endpoints_.insert_or_assign(std::string(pod), holder);
  membership_.fetch_add(1, std::memory_order_release);
}

void PreciseFeed::remove_endpoint(std::string_view pod, const kv::Holder& holder) {
  index_.purge(holder);
  const MutexLock lock(mutex_);
  const auto at = endpoints_.find(pod);
  if (at == endpoints_.end() || at->second.generation != holder.generation) return;
  endpoints_.erase(at);
  membership_.fetch_add(1, std::memory_order_release);
}

void PreciseFeed::distrust(std::string_view pod, const kv::Holder& holder) {
  index_.clear(holder);
  const MutexLock lock(mutex_);
  for (const auto& [at, view] : views_)
    if (view->pod() == pod) view->set_partial();
}

std::optional<kv::Holder> PreciseFeed::holder_of(std::string_view pod) const {
  const MutexLock lock(mutex_);
  const auto at = endpoints_.find(pod);
  return at == endpoints_.end() ? std::nullopt : std::optional(at->second);
}

void PreciseFeed::on_joined(kv_events::Publisher& publisher) {
  auto view = std::make_unique<View>(*this, publisher.pod);
  publisher.state = view.get();
  const MutexLock lock(mutex_);
  views_.emplace(view.get(), std::move(view));
}

void PreciseFeed::on_batch(kv_events::Publisher& publisher, std::string_view model,
                           const kv_events::Batch& batch) {
  static_cast<View*>(publisher.state)->apply(model, batch);
}

void PreciseFeed::on_lost(kv_events::Publisher& publisher, uint64_t) {
  static_cast<View*>(publisher.state)->lose();
}

void PreciseFeed::on_reset(kv_events::Publisher& publisher) {
  static_cast<View*>(publisher.state)->reset();
}

void PreciseFeed::on_left(kv_events::Publisher& publisher) {
  auto* const view = static_cast<View*>(publisher.state);
  view->reset();
  const MutexLock lock(mutex_);
  views_.erase(view);
}

std::vector<PreciseFeed::PublisherState> PreciseFeed::publishers() const {
  std::vector<PublisherState> out;
  const MutexLock lock(mutex_);
  for (const auto& [at, view] : views_) {
    const auto endpoint = endpoints_.find(view->pod());
    const size_t blocks = endpoint == endpoints_.end() ? 0 : index_.holdings_of(endpoint->second);
    out.push_back({view->pod(), blocks, view->partial()});
  }
  std::ranges::sort(out, {}, &PublisherState::pod);
  return out;
}

}  // namespace llmd::kv_precise
