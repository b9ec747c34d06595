#pragma once

#include "base/arena.h"
#include "request/request_view.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

/// Hash chains over prompts (spec 02 §11.1): equal prefixes have equal beginnings of their chains.
/// Text counts as its bytes, four to a pseudo token, the last one padded with zeros.
namespace llmd::kv {

/// Hashes of one chain at most, whatever the caller allows: 8 MiB of arena.
inline constexpr size_t kChainBlocksMax = size_t{1} << 20;

/// Tokens of the prompt: the ids given, or pseudo tokens. Cost: one step a piece.
int64_t token_count(const request::Prompt& prompt);

/// Start of every chain of a request. Model and salt are joined without a separator, as other
/// routers of the field join them, so that ("m", "s1") and ("ms1", "") are the same.
uint64_t chain_seed(std::string_view model, std::string_view cache_salt);

/// The chain of one prompt: one hash a block of `block_tokens`, a shorter last block included, at
/// most `blocks_max`. The result lives in `arena`.
/// Cost: one pass over the text. Groups of whole blocks of a plain piece are hashed where they
/// stand; other text goes through a buffer of sixteen blocks in the arena.
/// Requires: block_tokens > 0.
std::span<const uint64_t> block_hashes(const request::Prompt& prompt, uint64_t seed,
                                       size_t block_tokens, size_t blocks_max, Arena& arena);

}  // namespace llmd::kv
