#pragma once

#include "fleet/fleet.h"
#include "kv_precise/precise_cache.h"
#include "kv_shared/shared_index.h"
#include "render/prompt_renderer.h"
#include "render/token_source.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// How much of prompts servers hold in their KV caches, for other processes.
namespace llmd::kv_indexer {

/// What is asked besides the prompts.
struct Question {
  std::string model;  // as engines publish it: a LoRA adapter's name where there is one
  std::string cache_salt;
  std::vector<std::string> pods;  // "address:port"; empty: all
};

/// What one pod has of the prompts, from their starts without a gap.
struct PodScore {
  struct Tier {
    std::string name;
    uint32_t blocks = 0;
  };
  std::string pod;
  double score = 0;  // blocks by the weight of the best tier that they are in
  uint32_t blocks = 0;
  std::vector<Tier> tiers;  // blocks from the start in that tier
};

struct Scores {
  size_t block_tokens = 0;
  size_t blocks = 0;           // of the prompts
  std::vector<PodScore> pods;  // those that have any, the best first
};

/// The blocks of prompts, and who may have them.
struct LookUp {
  std::vector<std::vector<uint64_t>> chains;  // one a prompt
  std::vector<std::string> pods;
  std::vector<kv::Holder> holders;  // by pod
};

/// Answers from the index. Threading: any; immutable but for what it refers to.
class Indexer {
 public:
  /// Requires: `fleet` outlives this.
  Indexer(std::shared_ptr<kv_precise::PreciseCache> cache, const fleet::Fleet& fleet,
          render::TokenSource tokens)
      : cache_(std::move(cache)), fleet_(fleet), tokens_(std::move(tokens)) {}

  const render::TokenSource& tokens() const { return tokens_; }
  /// Null unless the index is shared with others.
  kv_shared::SharedIndex* shared() const { return cache_->shared(); }

  /// Whether there are pods.
  bool ready() const { return !fleet_.snapshot()->endpoints.empty(); }
  /// Pods that are no endpoints are left out.
  LookUp look_up(const Question& question, std::span<const render::RenderedPrompt> prompts) const;
  /// What this process knows, and `more`, by pod, that the shared index does; empty: nothing.
  Scores score(const LookUp& look_up, std::span<const kv_shared::Hit> more) const;

 private:
  const std::shared_ptr<kv_precise::PreciseCache> cache_;
  const fleet::Fleet& fleet_;
  const render::TokenSource tokens_;
};

}  // namespace llmd::kv_indexer
