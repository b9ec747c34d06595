#include "precise_lookup.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace llmd::plugins {
namespace {

using schedule::RequestContext;

kv::Holder holder(const schedule::Candidate& candidate) {
  return {.slot = candidate.slot, .generation = candidate.generation};
}

/// What is hashed with the tokens of a prompt. Most have nothing.
std::vector<kv::Extra> extras_of(const request::RequestView& request, const request::Prompt& prompt,
                                 size_t block_tokens) {
  if (prompt.media.empty() && request.cache_salt.empty()) return {};
  std::vector<kv::MediaItem> items;
  items.reserve(prompt.media.size());
  for (const auto& media : prompt.media) items.push_back({media.hash, media.offset, media.length});
  return kv::request_extras(std::move(items), request.cache_salt, prompt.token_ids.size(),
                            block_tokens);
}

/// By n: how many of the first n blocks have a part of an image, audio or video in them.
std::span<const int64_t> media_until(Arena& arena, const request::Prompt& prompt,
                                     size_t block_tokens, size_t blocks) {
  const auto open = arena.array<int64_t>(blocks + 1);  // items, from a block on
  for (const auto& media : prompt.media) {
    if (media.length == 0 || media.offset / block_tokens >= blocks) continue;
    ++open[media.offset / block_tokens];
    --open[std::min(blocks, (size_t{media.offset} + media.length - 1) / block_tokens + 1)];
  }
  const auto until = arena.array<int64_t>(blocks + 1);
  int64_t here = 0;
  for (size_t block = 0; block < blocks; ++block) {
    here += open[block];
    until[block + 1] = until[block] + (here > 0);
  }
  return until;
}

double most_matched(std::span<const schedule::PrefixMatch> matches) {
  return std::ranges::max(matches, {}, &schedule::PrefixMatch::match_blocks).match_blocks;
}

using Tiers = ArenaList<schedule::TierBlocks::Tier>;

Tiers tiers_of(Arena& arena, const kv::PrefixHit& hit, const kv_precise::TierNames& names) {
  Tiers tiers(arena);
  for (size_t tier = 0; tier < hit.blocks_by_tier.size(); ++tier)
    if (hit.blocks_by_tier[tier] != 0)
      tiers.push_back({names.name(static_cast<uint8_t>(tier)), hit.blocks_by_tier[tier]});
  if (hit.speculative_blocks != 0)
    tiers.push_back({schedule::TierBlocks::kSpeculative, hit.speculative_blocks});
  return tiers;
}

/// The most of what is known here and what the shared index says, tier by tier.
schedule::TierBlocks join(Arena& arena, const schedule::TierBlocks& known,
                          std::span<const kv_shared::Hit::Tier> more) {
  Tiers tiers(arena);
  tiers.append(known.tiers);
  for (const auto& [medium, blocks] : more) {
    const auto name = medium.empty() ? schedule::TierBlocks::kSpeculative : medium;
    const auto at = std::ranges::find(tiers.view(), name, &schedule::TierBlocks::Tier::name);
    if (at == tiers.view().end())
      tiers.push_back({arena.copy(name), blocks});
    else
      at->blocks = std::max<int64_t>(at->blocks, blocks);
  }
  return {tiers.view()};
}

}  // namespace

void PreciseLookup::wire(schedule::Wiring& wiring) {
  wiring.consumes<schedule::TokenizedPrompt>("token-producer", schedule::Need::kRequired);
  matches_ = wiring.produces<schedule::PrefixMatch>();
  chains_ = wiring.request_slot<Chains>();
  prefill_ = wiring.prefill_profile();
  wiring.listen(cache_);
}

PreciseLookup::Chain PreciseLookup::chain_of(RequestContext& context,
                                             const request::Prompt& prompt) const {
  const auto& keys = cache_->keys();
  const auto chain = context.arena.array<uint64_t>(keys.blocks_of(prompt.token_ids.size()));
  if (!chain.empty())
    keys.chain(keys.root(context.target_model), prompt.token_ids,
               extras_of(*context.request, prompt, keys.block_tokens()), chain);
  return chain;
}

schedule::Progress PreciseLookup::produce(RequestContext& context) const {
  auto& chains = context.slot(chains_);
  if (chains.ticket != 0) {
    take(context, chains);
    return schedule::Progress::kDone;
  }
  chains = {};
  if (!context.request || context.candidates.empty()) return schedule::Progress::kDone;
  trace::Stage stage(context.trace, "produce_precise_prefix_cache", trace::Scope::kPlugins);
  stage.set("llm_d.epp.producer.candidate_endpoints", context.candidates.size());
  const auto& prompts = context.request->prompts;
  const auto of_prompts = context.arena.array<Chain>(prompts.size());
  int64_t total = 0;
  for (size_t p = 0; p < prompts.size(); ++p) {
    of_prompts[p] = chain_of(context, prompts[p]);
    total += static_cast<int64_t>(of_prompts[p].size());
  }
  stage.set("llm_d.epp.producer.total_blocks", total);
  if (total == 0) {
    stage.set("llm_d.epp.producer.result", "skipped_no_tokens");
    return schedule::Progress::kDone;
  }
  chains.of_prompts = of_prompts;
  chains.comparable = prompts.size() == 1 && !context.request->prompt_logprobs;
  cache_->expire();

  chains.matches = context.write(matches_);
  std::ranges::fill(
      chains.matches,
      schedule::PrefixMatch{.total_blocks = total,
                            .block_tokens = static_cast<int64_t>(cache_->keys().block_tokens())});
  chains.cached = context.arena.array<schedule::CachedBlocks>(chains.matches.size());
  if (prompts.size() == 1 && !prompts[0].media.empty())
    chains.media_until =
        media_until(context.arena, prompts[0], cache_->keys().block_tokens(), of_prompts[0].size());
  match(context, chains);
  if (stage) stage.set("llm_d.epp.producer.max_match_blocks", most_matched(chains.matches));
  return ask(context, chains) ? schedule::Progress::kSuspended : schedule::Progress::kDone;
}

void PreciseLookup::match(RequestContext& context, Chains& chains) const {
  const size_t n = context.candidates.size();
  const auto holders = context.arena.array<kv::Holder>(n);
  for (size_t i = 0; i < n; ++i) holders[i] = holder(context.candidates[i]);
  const auto sums = context.arena.array<kv::PrefixHit>(n);
  const auto hits = context.arena.array<kv::PrefixHit>(n);
  for (size_t p = 0; p < chains.of_prompts.size(); ++p) {
    const Chain chain = chains.of_prompts[p];
    if (chain.empty()) continue;
    std::ranges::fill(hits, kv::PrefixHit{});
    trace::Stage stage(context.trace, "score_tokens", trace::Scope::kPlugins);
    look_up(context.trace, chain, holders, hits);
    if (stage) {
      note_tokens(stage, context.request->prompts[p].token_ids.size(), chain, hits);
      note_scores(context.trace, chain, hits);
    }
    for (size_t i = 0; i < n; ++i) sums[i] += hits[i];
  }
  for (size_t i = 0; i < n; ++i) {
    auto& match = chains.matches[i];
    match.match_blocks = std::trunc(sums[i].score);
    match.cached_blocks = sums[i].blocks;
    match.cached = &chains.cached[i];
    chains.cached[i].by_tier = {tiers_of(context.arena, sums[i], cache_->tiers()).view()};
    note_media(chains, i);
  }
}

void PreciseLookup::look_up(trace::Trace* trace, Chain chain, std::span<const kv::Holder> holders,
                            std::span<kv::PrefixHit> hits) const {
  trace::Stage stage(trace, "index_lookup", trace::Scope::kPlugins);
  cache_->match(chain, holders, hits);
  if (!stage) return;
  const uint32_t found = kv_precise::longest(hits);
  stage.set("llm_d.kv_cache.index.lookup.block_count", chain.size());
  stage.set("llm_d.kv_cache.lookup.pod_filter_count", holders.size());
  stage.set("llm_d.kv_cache.lookup.cache_hit", found > 0);
  stage.set("llm_d.kv_cache.lookup.blocks_found", found);
}

void PreciseLookup::note_tokens(trace::Stage& stage, size_t tokens, Chain chain,
                                std::span<const kv::PrefixHit> hits) {
  const uint32_t found = kv_precise::longest(hits);
  stage.set("llm_d.kv_cache.pod_count", hits.size());
  stage.set("llm_d.kv_cache.token_count", tokens);
  stage.set("llm_d.kv_cache.block_keys.count", chain.size());
  stage.set("llm_d.kv_cache.block_hit_ratio", found / static_cast<double>(chain.size()));
  stage.set("llm_d.kv_cache.blocks_found", found);
}

/// Scores are made along with the look-up: the span says what came of it, and takes no time.
void PreciseLookup::note_scores(trace::Trace* trace, Chain chain,
                                std::span<const kv::PrefixHit> hits) {
  trace::Stage stage(trace, "compute_scores", trace::Scope::kPlugins);
  double most = 0, sum = 0;
  size_t scored = 0;
  for (const auto& hit : hits) {
    most = std::max(most, hit.score);
    sum += hit.score;
    scored += hit.blocks > 0;
  }
  stage.set("llm_d.kv_cache.scorer.algorithm", "LongestPrefix");
  stage.set("llm_d.kv_cache.scorer.key_count", chain.size());
  if (scored == 0) return;
  stage.set("llm_d.kv_cache.scorer.pods_scored", scored);
  stage.set("llm_d.kv_cache.score.max", most);
  stage.set("llm_d.kv_cache.score.avg", sum / static_cast<double>(scored));
}

void PreciseLookup::note_media(const Chains& chains, size_t candidate) {
  if (!chains.media_until.empty())
    chains.cached[candidate].media =
        chains.media_until[static_cast<size_t>(chains.matches[candidate].cached_blocks)];
}

bool PreciseLookup::ask(RequestContext& context, Chains& chains) const {
  auto* const shared = cache_->shared();
  if (!shared || !shared->available()) return false;
  kv_shared::Question question;
  for (const Chain chain : chains.of_prompts)
    if (!chain.empty()) question.chains.emplace_back(chain.begin(), chain.end());
  for (const auto& candidate : context.candidates)
    question.pods.push_back(candidate.endpoint->host_port());
  const auto ticket = shared->ask(std::move(question), context.suspend());
  chains.ticket = ticket.value_or(0);
  return ticket.has_value();
}

void PreciseLookup::take(RequestContext& context, Chains& chains) const {
  const auto answer = cache_->shared()->take(std::exchange(chains.ticket, 0));
  if (!answer) return;
  for (size_t i = 0; i < answer->size(); ++i) {
    const kv_shared::Hit& hit = (*answer)[i];
    auto& match = chains.matches[i];
    match.match_blocks = std::max(match.match_blocks, std::trunc(hit.score));
    match.cached_blocks = std::max<int64_t>(match.cached_blocks, hit.blocks);
    auto& by_tier = chains.cached[i].by_tier;
    by_tier = join(context.arena, by_tier, hit.tiers);
    note_media(chains, i);
  }
}

void PreciseLookup::commit(RequestContext& context) const {
  for (const Chain chain : context.slot(chains_).of_prompts) cache_->touch(chain);
  expect(context, context.primary);
  if (prefill_ != context.primary) expect(context, prefill_);
}

const fleet::Endpoint* PreciseLookup::chosen(const RequestContext& context, uint16_t profile) {
  if (profile >= context.results.size() || context.results[profile].targets.empty()) return nullptr;
  return context.candidates[context.results[profile].targets[0]].endpoint;
}

/// The target of a profile is going to hold the prompts.
void PreciseLookup::expect(const RequestContext& context, uint16_t profile) const {
  const auto* const endpoint = chosen(context, profile);
  if (!endpoint) return;
  const auto* chains = static_cast<const Chains*>(context.slots[chains_.index]);
  for (const Chain chain : chains->of_prompts) cache_->expect(*endpoint, chain);
}

void PreciseLookup::withdraw(const RequestContext& context, uint16_t profile) const {
  const auto* const endpoint = chosen(context, profile);
  if (!endpoint) return;
  const auto* chains = static_cast<const Chains*>(context.slots[chains_.index]);
  for (const Chain chain : chains->of_prompts) cache_->withdraw(*endpoint, chain);
}

void PreciseLookup::on_end(const RequestContext& context, schedule::EndCause cause,
                           const request::Usage& usage) const {
  const auto* chains = static_cast<const Chains*>(context.slots[chains_.index]);
  if (!chains || chains->matches.empty()) return;
  if (cause == schedule::EndCause::kNatural && usage.present) compare(context, *chains, usage);
  if (cause != schedule::EndCause::kError) return;
  withdraw(context, context.primary);
  if (prefill_ != context.primary) withdraw(context, prefill_);
}

void PreciseLookup::compare(const RequestContext& context, const Chains& chains,
                            const request::Usage& usage) const {
  // Who decodes what another has prefilled reports what came from there.
  if (!chains.comparable || (prefill_ != context.primary && chosen(context, prefill_))) return;
  const uint32_t target = context.results[context.primary].targets[0];
  const auto& match = chains.matches[target];
  cache_->compare(*context.candidates[target].endpoint,
                  {.promised = match.cached_blocks * match.block_tokens,
                   .reported = usage.cached_tokens,
                   .slack = match.block_tokens});
}

}  // namespace llmd::plugins
