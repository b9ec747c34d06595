#include "base/mutex.h"
#include "base/text.h"
#include "pickers/rotation.h"
#include "plugin/ignored_param.h"
#include "plugin/registry.h"
#include "schedule/attributes.h"
#include "schedule/interfaces.h"
#include "schedule/wiring.h"

#include <algorithm>
#include <functional>
#include <map>

namespace llmd::plugins {
namespace {

using schedule::PrefixMatch;
using schedule::RequestContext;

constexpr int64_t kDefaultSize = 1024;

struct Params {
  int64_t lru_size = kDefaultSize;
  std::string producer = "approx-prefix-cache-producer";
};

const plugin::Params<Params>& table() {
  static const plugin::Params<Params> params = {
      plugin::field("lruSize", &Params::lru_size, "endpoints",
                    "How many endpoints are remembered; the default when 0 or less."),
      plugin::field("prefixMatchInfoProducerName", &Params::producer, "",
                    "Producer of the prefix matches."),
      plugin::ignored<Params, std::string>("prefixPluginType"),
      plugin::ignored<Params, std::string>("prefixPluginName"),
  };
  return params;
}

/// When each endpoint last got a cold request. Outlives configurations. Threading: any; decisions
/// use `turns`, which takes no lock.
class ColdUse final : public fleet::MembershipListener {
 public:
  void on_added(const fleet::EndpointPtr& endpoint) override {
    const MutexLock lock(mutex_);
    present_[endpoint->slot()] = endpoint;
  }
  void on_removed(const fleet::EndpointPtr& endpoint) override {
    const MutexLock lock(mutex_);
    const auto at = present_.find(endpoint->slot());
    if (at != present_.end() && at->second->generation() == endpoint->generation())
      present_.erase(at);
  }

  /// {"endpoints", "totalEndpoints", "maxEndpoints"}: those that were used, the last one first.
  std::string dump() const {
    std::vector<std::pair<uint64_t, std::string>> used;
    {
      const MutexLock lock(mutex_);
      for (const auto& [slot, endpoint] : present_)
        if (const uint64_t turn = turns.see(*endpoint).turn; turn > 0)
          used.emplace_back(turn, endpoint->id());
    }
    std::ranges::sort(used, std::ranges::greater());
    std::string out = R"({"endpoints":[)";
    for (size_t i = 0; i < std::min(used.size(), kDumpMax); ++i) {
      out += i > 0 ? R"(,")" : R"(")";
      append_json_escaped(out, used[i].second);
      out += '"';
    }
    return out + R"(],"totalEndpoints":)" + std::to_string(used.size()) + R"(,"maxEndpoints":)" +
           std::to_string(kDumpMax) + "}";
  }

  Rotation turns;

 private:
  static constexpr size_t kDumpMax = 100;

  mutable Mutex mutex_;
  std::map<uint32_t, fleet::EndpointPtr> present_ LLMD_GUARDED_BY(mutex_);  // by slot
};

/// Spreads requests that no endpoint has a prefix of, so that new prefixes do not all settle where
/// the load happens to be low at the moment.
class NoHitLruScorer final : public schedule::Scorer, public schedule::PreRequest {
 public:
  NoHitLruScorer(Params p, const plugin::Context& context)
      : lru_size_(static_cast<size_t>(p.lru_size > 0 ? p.lru_size : kDefaultSize)),
        producer_(std::move(p.producer)),
        use_(context.state.get<ColdUse>(context.name, [] { return new ColdUse; })) {}

  void wire(schedule::Wiring& wiring) override {
    matches_ = wiring.consumes<PrefixMatch>(producer_, schedule::Need::kRequired);
    cold_ = wiring.request_slot<bool>();
    prefill_ = wiring.prefill_profile();
    wiring.listen(use_);
  }

  void score(RequestContext& context, std::span<const uint32_t> selected,
             std::span<double> scores) const override {
    const auto matches = context.read(matches_);
    const auto is_hit = [&](uint32_t i) { return matches[i].match_blocks > 0; };
    const bool cold = matches.empty() || std::ranges::none_of(selected, is_hit);
    context.slot(cold_) = cold;
    if (!cold)
      std::ranges::fill(scores, 0.5);
    else if (selected.size() == 1)
      scores[0] = 1;
    else
      rank(context, selected, scores);
  }

  Status pre_request(RequestContext& context) const override {
    if (!context.slot(cold_)) return {};
    touch(context, context.primary);
    if (prefill_ != context.primary) touch(context, prefill_);
    return {};
  }

  std::string dump_state() const override { return use_->dump(); }

 private:
  /// The candidates never used, as they stand, then the others from the one used longest ago on,
  /// get evenly spaced scores from 1 down to 0.
  void rank(RequestContext& context, std::span<const uint32_t> selected,
            std::span<double> scores) const {
    struct Used {
      uint64_t turn;
      uint32_t at;
    };
    const auto order = context.arena.array<Used>(selected.size());
    for (uint32_t k = 0; k < selected.size(); ++k)
      order[k] = {use_->turns.see(*context.candidates[selected[k]].endpoint).turn, k};
    const auto earlier = [](const Used& a, const Used& b) {
      return a.turn != b.turn ? a.turn < b.turn : a.at < b.at;
    };
    std::ranges::sort(order, earlier);
    if (order.size() > lru_size_) forget_oldest(order.first(order.size() - lru_size_), earlier);
    const auto last = static_cast<double>(order.size() - 1);
    for (size_t place = 0; place < order.size(); ++place)
      scores[order[place].at] = 1 - static_cast<double>(place) / last;
  }

  static void forget_oldest(auto oldest, auto earlier) {
    for (auto& used : oldest) used.turn = 0;
    std::ranges::sort(oldest, earlier);
  }

  void touch(const RequestContext& context, uint16_t profile) const {
    if (profile >= context.results.size() || context.results[profile].targets.empty()) return;
    const auto& endpoint = *context.candidates[context.results[profile].targets[0]].endpoint;
    while (!use_->turns.take(endpoint, use_->turns.see(endpoint))) {
    }
  }

  const size_t lru_size_;
  const std::string producer_;
  const std::shared_ptr<ColdUse> use_;
  schedule::Consumed<PrefixMatch> matches_;
  schedule::RequestSlot<bool> cold_;
  uint16_t prefill_ = UINT16_MAX;
};

}  // namespace

const plugin::Descriptor& no_hit_lru_scorer() {
  static const auto descriptor = plugin::describe<NoHitLruScorer>(
      {.type = "no-hit-lru-scorer",
       .kind = "scorer",
       .summary = "Sends requests without any cached prefix to the endpoint that got such a "
                  "request longest ago; 0.5 for all when there is a hit."},
      table());
  return descriptor;
}

}  // namespace llmd::plugins
