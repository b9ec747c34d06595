#pragma once

#include "kv_precise/precise_cache.h"
#include "schedule/attributes.h"
#include "schedule/interfaces.h"
#include "schedule/wiring.h"

#include <memory>
#include <span>
#include <string>

namespace llmd::plugins {

using kv_precise::PreciseCache;
using kv_precise::PreciseParams;

/// The work of a producer of precise prefix matches, for the plugins that are one.
/// Threading: any.
class PreciseLookup {
 public:
  PreciseLookup(const PreciseParams& params, std::string settings, const plugin::Context& context)
      : cache_(PreciseCache::of(params, std::move(settings), context)) {}

  void wire(schedule::Wiring& wiring);
  /// Writes nothing when no prompt has a whole block of tokens. Waits for a shared index while that
  /// is there, and in kSharedTimeout at most; without its answer, what this process knows counts.
  schedule::Progress produce(schedule::RequestContext& context) const;
  static constexpr Nanos kSharedTimeout = std::chrono::milliseconds(100);
  /// Once the targets are chosen.
  void commit(schedule::RequestContext& context) const;

  /// Another endpoint than the chosen one answers.
  void on_moved(const schedule::RequestContext& context) const { expect(context, context.primary); }

  /// At the end of an answer: compares what was promised of its prompts with what it reports; an
  /// endpoint that failed is not expected to hold them.
  void on_end(const schedule::RequestContext& context, schedule::EndCause cause,
              const request::Usage& usage) const;

  std::string dump() const { return cache_->dump(); }

 private:
  using Chain = std::span<const uint64_t>;
  struct Chains {
    std::span<const Chain> of_prompts;
    std::span<schedule::PrefixMatch> matches;  // by candidate
    std::span<schedule::CachedBlocks> cached;  // by candidate
    /// How many of the first n blocks have media in them, by n; empty: none, or several prompts.
    std::span<const int64_t> media_until;
    /// The answer reports how much of what is held was used. vLLM reports of several prompts what
    /// one had cached, and uses nothing where the likelihood of the prompt is asked for.
    bool comparable = false;
    uint64_t ticket = 0;  // of the question to the shared index under way
  };

  Chain chain_of(schedule::RequestContext& context, const request::Prompt& prompt) const;
  void match(schedule::RequestContext& context, Chains& chains) const;
  void look_up(trace::Trace* trace, Chain chain, std::span<const kv::Holder> holders,
               std::span<kv::PrefixHit> hits) const;
  static void note_tokens(trace::Stage& stage, size_t tokens, Chain chain,
                          std::span<const kv::PrefixHit> hits);
  static void note_scores(trace::Trace* trace, Chain chain, std::span<const kv::PrefixHit> hits);
  static void note_media(const Chains& chains, size_t candidate);
  /// Whether the shared index is asked, if there is one.
  bool ask(schedule::RequestContext& context, Chains& chains) const;
  /// Takes over what the shared index knows of more.
  void take(schedule::RequestContext& context, Chains& chains) const;
  void expect(const schedule::RequestContext& context, uint16_t profile) const;
  void withdraw(const schedule::RequestContext& context, uint16_t profile) const;
  void compare(const schedule::RequestContext& context, const Chains& chains,
               const request::Usage& usage) const;
  /// The endpoint that the profile chose; null: none.
  static const fleet::Endpoint* chosen(const schedule::RequestContext& context, uint16_t profile);

  const std::shared_ptr<PreciseCache> cache_;
  schedule::Produced<schedule::PrefixMatch> matches_;
  schedule::RequestSlot<Chains> chains_;
  uint16_t prefill_ = UINT16_MAX;
};

}  // namespace llmd::plugins
