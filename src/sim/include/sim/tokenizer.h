#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace llmd::sim {

/// The simulator's tokenizer: no vocabulary, the same ids on every machine. A token is one
/// character of
/// {}:,-.?!;@#$%^&*()+_~/\><[]="' or a maximal run of [0-9A-Za-z_] that does not start with '_',
/// together with the whitespace after it; its id is the FNV-1a 32-bit hash of those bytes. Every
/// other byte is dropped. Threading: any. Cost: one table look-up and one multiplication a byte.

/// Appends the tokens' ids to `ids`.
void tokenize(std::string_view text, std::vector<uint32_t>& ids);

/// Appends the tokens' texts, views into `text`, to `pieces`.
void split_tokens(std::string_view text, std::vector<std::string_view>& pieces);

uint32_t token_id(std::string_view piece);

}  // namespace llmd::sim
