#include "kv_indexer/indexer.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace llmd::kv_indexer {
namespace {

constexpr std::string_view kSpeculative = "speculative";

std::vector<kv::Extra> extras_of(const render::RenderedPrompt& prompt, std::string_view salt,
                                 size_t block_tokens) {
  std::vector<kv::MediaItem> items;
  items.reserve(prompt.media.size());
  for (const auto& media : prompt.media) items.push_back({media.hash, media.offset, media.length});
  return kv::request_extras(std::move(items), salt, prompt.token_ids.size(), block_tokens);
}

void add_tier(std::vector<PodScore::Tier>& tiers, std::string_view name, uint32_t blocks) {
  if (blocks == 0) return;
  const auto at = std::ranges::find(tiers, name, &PodScore::Tier::name);
  if (at == tiers.end())
    tiers.push_back({std::string(name), blocks});
  else
    at->blocks = std::max(at->blocks, blocks);
}

}  // namespace

LookUp Indexer::look_up(const Question& question,
                        std::span<const render::RenderedPrompt> prompts) const {
  LookUp out;
  const auto& keys = cache_->keys();
  for (const auto& prompt : prompts) {
    auto& chain = out.chains.emplace_back(keys.blocks_of(prompt.token_ids.size()));
    keys.chain(keys.root(question.model), prompt.token_ids,
               extras_of(prompt, question.cache_salt, keys.block_tokens()), chain);
  }
  const std::unordered_set<std::string_view> wanted(question.pods.begin(), question.pods.end());
  const auto snapshot = fleet_.snapshot();
  for (const auto& endpoint : snapshot->endpoints) {
    std::string pod(endpoint->host_port());
    if (!wanted.empty() && !wanted.contains(pod)) continue;
    out.pods.push_back(std::move(pod));
    out.holders.push_back({.slot = endpoint->slot(), .generation = endpoint->generation()});
  }
  return out;
}

Scores Indexer::score(const LookUp& look_up, std::span<const kv_shared::Hit> more) const {
  const size_t n = look_up.pods.size();
  std::vector<kv::PrefixHit> sums(n);
  Scores scores{.block_tokens = cache_->keys().block_tokens()};
  for (const auto& chain : look_up.chains) {
    scores.blocks += chain.size();
    if (chain.empty()) continue;
    std::vector<kv::PrefixHit> hits(n);
    cache_->match(chain, look_up.holders, hits);
    cache_->touch(chain);
    for (size_t i = 0; i < n; ++i) sums[i] += hits[i];
  }
  for (size_t i = 0; i < n; ++i) {
    PodScore pod{.pod = look_up.pods[i], .score = sums[i].score, .blocks = sums[i].blocks};
    for (size_t tier = 0; tier < sums[i].blocks_by_tier.size(); ++tier)
      add_tier(pod.tiers, cache_->tiers().name(static_cast<uint8_t>(tier)),
               sums[i].blocks_by_tier[tier]);
    add_tier(pod.tiers, kSpeculative, sums[i].speculative_blocks);
    if (!more.empty()) {
      pod.score = std::max(pod.score, more[i].score);
      pod.blocks = std::max(pod.blocks, more[i].blocks);
      for (const auto& tier : more[i].tiers)
        add_tier(pod.tiers, tier.name.empty() ? kSpeculative : tier.name, tier.blocks);
    }
    if (pod.blocks > 0) scores.pods.push_back(std::move(pod));
  }
  std::ranges::stable_sort(scores.pods, std::greater<>(), &PodScore::score);
  return scores;
}

}  // namespace llmd::kv_indexer
