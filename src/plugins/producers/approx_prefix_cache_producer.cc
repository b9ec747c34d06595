#include "prefix_index.h"

#include "kv/block_hash.h"
#include "plugin/registry.h"
#include "schedule/attributes.h"
#include "schedule/interfaces.h"
#include "schedule/moved_hook.h"
#include "schedule/wiring.h"

#include <algorithm>
#include <utility>

namespace llmd::plugins {
namespace {

using schedule::PrefixMatch;
using schedule::RequestContext;

constexpr std::string_view kType = "approx-prefix-cache-producer";
constexpr std::string_view kMulticlusterType = "multicluster-approx-prefix-cache-producer";
/// Smaller blocks would cost more to hash and look up than their finer matches are worth.
constexpr int64_t kBlockTokensMin = 64;
constexpr int64_t kDefaultBlockTokens = 16;
constexpr int64_t kDefaultCapacity = 31250;

struct Params {
  bool auto_tune = true;
  int64_t block_tokens = kDefaultBlockTokens;
  int64_t block_size = 0;
  int64_t match_tokens_max = 131072;
  int64_t match_blocks_max = 2048;
  int64_t capacity = kDefaultCapacity;
};

/// blockSize counts while blockSizeTokens has its default.
Status fold(Params& p) {
  const int64_t tokens = std::exchange(p.block_size, 0);
  if (tokens > 0 && p.block_tokens == kDefaultBlockTokens) p.block_tokens = tokens;
  return {};
}

const plugin::Params<Params>& table() {
  static const plugin::Params<Params> params(
      {
          plugin::field(
              "autoTune", &Params::auto_tune, "",
              "Take block size and capacity from the endpoints' metrics where they report "
              "them."),
          plugin::field("blockSizeTokens", &Params::block_tokens, "tokens",
                        "Block size where metrics do not give it; never below 64 in effect."),
          plugin::field("blockSize", &Params::block_size, "tokens",
                        "Becomes blockSizeTokens while that has its default.")
              .deprecated(),
          plugin::field("maxPrefixTokensToMatch", &Params::match_tokens_max, "tokens",
                        "How much of a prompt is hashed; 0: maxPrefixBlocksToMatch decides.")
              .min(0),
          plugin::field("maxPrefixBlocksToMatch", &Params::match_blocks_max, "blocks",
                        "How much of a prompt is hashed when maxPrefixTokensToMatch is 0; 0: all.")
              .min(0)
              .deprecated(),
          plugin::field(
              "lruCapacityPerServer", &Params::capacity, "blocks",
              "Blocks remembered per endpoint where metrics do not give its cache size; 0 "
              "and less mean the default."),
      },
      fold);
  return params;
}

/// Guesses which endpoint holds which prefix from where earlier requests went. `kOwnType` is its
/// type in metrics.
template <const std::string_view& kOwnType>
class ApproxPrefixCacheProducer final : public schedule::Producer,
                                        public schedule::PreRequest,
                                        public schedule::MovedHook {
 public:
  static Result<std::unique_ptr<ApproxPrefixCacheProducer>> create(Params p,
                                                                   const plugin::Context& context) {
    if (!p.auto_tune && p.block_tokens <= 0)
      return fail(Code::kBadRequest,
                  "parameter 'blockSizeTokens' must be above 0 without autoTune, not " +
                      std::to_string(p.block_tokens));
    if (p.capacity <= 0) p.capacity = kDefaultCapacity;
    return std::make_unique<ApproxPrefixCacheProducer>(p, context);
  }

  ApproxPrefixCacheProducer(Params p, const plugin::Context& context)
      : params_(p), index_(context.state.get<PrefixIndex>(context.name, [&] {
          return new PrefixIndex(context.metrics, context.name, kOwnType);
        })) {}

  void wire(schedule::Wiring& wiring) override {
    wiring.consumes<schedule::TokenizedPrompt>("token-producer", schedule::Need::kRequired);
    matches_ = wiring.produces<PrefixMatch>();
    chains_ = wiring.request_slot<Chains>();
    prefill_ = wiring.prefill_profile();
    wiring.listen(index_);
  }

  Result<schedule::Progress> produce(RequestContext& context) const override {
    const auto matches = context.write_all(matches_);
    if (matches.empty()) return schedule::Progress::kDone;
    const int64_t block_tokens = block_tokens_for(context.candidates[0].metrics);
    auto& chains = context.slot(chains_);
    chains.block_tokens = block_tokens;
    chains.of_prompts = hash(context, static_cast<size_t>(block_tokens));

    int64_t total = 0;
    for (const auto& chain : chains.of_prompts) total += static_cast<int64_t>(chain.size());
    const auto matched = look_up(context, chains.of_prompts);
    for (size_t i = 0; i < matches.size(); ++i) {
      const uint32_t blocks = matched[context.candidates[i].slot];
      matches[i] = {.match_blocks = static_cast<double>(blocks),
                    .total_blocks = total,
                    .block_tokens = block_tokens,
                    .cached_blocks = blocks};
    }
    return schedule::Progress::kDone;
  }

  Status pre_request(RequestContext& context) const override {
    const auto matches = context.read(matches_);
    if (matches.empty()) return {};
    const auto& chains = context.slot(chains_);
    commit(context, chains, context.primary);
    if (prefill_ != context.primary) commit(context, chains, prefill_);
    const PrefixMatch& match = matches[context.results[context.primary].targets[0]];
    index_->observe(match.cached_blocks, match.total_blocks, match.block_tokens);
    return {};
  }

  /// Who answers holds the prompt. What was noted of the chosen one is left to age there: it may
  /// have had the blocks before.
  void on_moved(RequestContext& context) const override {
    commit(context, context.slot(chains_), context.primary);
  }

  std::string dump_state() const override { return index_->dump(); }

 private:
  using Chain = std::span<const uint64_t>;
  struct Chains {
    std::span<const Chain> of_prompts;
    int64_t block_tokens = 0;
  };

  int64_t block_tokens_for(const fleet::EndpointMetrics& metrics) const {
    const bool reported = params_.auto_tune && metrics.cache_block_size > 0;
    return std::max(kBlockTokensMin, reported ? metrics.cache_block_size : params_.block_tokens);
  }

  size_t blocks_max(int64_t block_tokens) const {
    if (params_.match_tokens_max > 0)
      return static_cast<size_t>(params_.match_tokens_max / block_tokens);
    return params_.match_blocks_max > 0 ? static_cast<size_t>(params_.match_blocks_max) : SIZE_MAX;
  }

  std::span<const Chain> hash(RequestContext& context, size_t block_tokens) const {
    if (!context.request) return {};
    const auto& prompts = context.request->prompts;
    const auto chains = context.arena.array<Chain>(prompts.size());
    const uint64_t seed = kv::chain_seed(context.target_model, context.request->cache_salt);
    const size_t limit = blocks_max(static_cast<int64_t>(block_tokens));
    for (size_t p = 0; p < prompts.size(); ++p)
      chains[p] = kv::block_hashes(prompts[p], seed, block_tokens, limit, context.arena);
    return chains;
  }

  /// Matched blocks by slot, summed over prompts.
  std::span<const uint32_t> look_up(RequestContext& context, std::span<const Chain> chains) const {
    uint32_t slots = 0;
    for (const auto& candidate : context.candidates) slots = std::max(slots, candidate.slot + 1);
    const auto matched = context.arena.array<uint32_t>(slots);
    for (const auto& chain : chains) index_->index.match(chain, matched);
    return matched;
  }

  /// The endpoint's cache in our blocks.
  size_t capacity_for(const fleet::EndpointMetrics& metrics, int64_t block_tokens) const {
    if (!params_.auto_tune || metrics.cache_num_blocks <= 0)
      return static_cast<size_t>(params_.capacity);
    if (metrics.cache_block_size <= 0) return static_cast<size_t>(metrics.cache_num_blocks);
    return static_cast<size_t>(
        std::max<int64_t>(1, metrics.cache_num_blocks * metrics.cache_block_size / block_tokens));
  }

  void commit(const RequestContext& context, const Chains& chains, uint16_t profile) const {
    if (profile >= context.results.size() || context.results[profile].targets.empty()) return;
    const auto& candidate = context.candidates[context.results[profile].targets[0]];
    const kv::BlockOwner owner{.slot = candidate.slot,
                               .generation = candidate.generation,
                               .capacity = capacity_for(candidate.metrics, chains.block_tokens)};
    for (const auto& chain : chains.of_prompts) index_->index.commit(owner, chain);
  }

  const Params params_;
  const std::shared_ptr<PrefixIndex> index_;
  schedule::Produced<PrefixMatch> matches_;
  schedule::RequestSlot<Chains> chains_;
  uint16_t prefill_ = UINT16_MAX;
};

}  // namespace

const plugin::Descriptor& multicluster_approx_prefix_cache_producer() {
  static const auto descriptor = plugin::describe<ApproxPrefixCacheProducer<kMulticlusterType>>(
      {.type = kMulticlusterType,
       .kind = "producer",
       .summary = "The same as approx-prefix-cache-producer, for endpoints that are clusters.",
       .stability = plugin::Stability::kAlpha},
      table());
  return descriptor;
}

const plugin::Descriptor& approx_prefix_cache_producer() {
  static const auto descriptor = plugin::describe<ApproxPrefixCacheProducer<kType>>(
      {.type = kType,
       .kind = "producer",
       .summary = "Guesses from where earlier requests went which endpoint holds which prefix.",
       .produces_by_default = {"PrefixCacheMatchInfoDataKey/approx-prefix-cache-producer"}},
      table());
  return descriptor;
}

}  // namespace llmd::plugins
