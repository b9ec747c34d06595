#pragma once

#include "base/rng.h"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace llmd::bench {

/// The work of the prefix-cache experiment: long contexts, each asked about twice. The second
/// question finds the context's KV cache only on the server that answered the first.
struct ContextPair {
  std::string context;  // begins with an id of its own, so no two contexts share a prefix
  std::string first;    // context + question
  std::string second;
};

/// `tokens` is approximate: whole observation lines under the simulator's dummy tokenizer,
/// kTokensPerLine each, after a head line of kTokensOfHead. The same `rng` state gives the same
/// pairs on every machine.
std::vector<ContextPair> make_context_pairs(Rng& rng, size_t count, size_t tokens);

inline constexpr size_t kTokensOfHead = 10;
inline constexpr size_t kTokensPerLine = 24;

/// The body of a streamed chat request for `content` at temperature 0, usage included.
std::string chat_body(std::string_view model, std::string_view content, int max_tokens = 32);

}  // namespace llmd::bench
