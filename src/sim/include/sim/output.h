#pragma once

#include "sim/draws.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace llmd::sim {

/// Inclusive length ranges of the first five buckets of a random answer capped at `max_tokens`; the
/// sixth bucket is exactly `max_tokens`. Requires: max_tokens > 6.
std::array<std::pair<int64_t, int64_t>, 5> length_buckets(int64_t max_tokens);

/// How many tokens a random answer has, at least 1. Without a maximum the length is normal(40, 20)
/// inside what the context leaves, or uniform where that is under 20.
uint32_t draw_length(std::optional<uint32_t> max_tokens, bool ignore_eos, uint32_t context_left,
                     Draws& draws);

/// The tokens of one answer, in order. Two kinds: random sentences, computed as they are asked for,
/// so that a running answer costs no memory per token; or the tokens of a text that is echoed.
/// Lifetime: next() views static text or the output's own copy of the echo, so a move keeps no view
/// valid.
class Output {
 public:
  Output() = default;
  static Output random(uint32_t tokens, Draws draws);
  static Output echo(std::string text);
  Output(Output&&) = default;
  Output& operator=(Output&&) = default;

  uint32_t size() const { return size_; }
  /// The next token's text. Requires: fewer than size() calls before.
  std::string_view next();
  /// Keeps only the first `tokens` tokens.
  void truncate(uint32_t tokens) { size_ = size_ < tokens ? size_ : tokens; }

 private:
  uint32_t size_ = 0;
  uint32_t position_ = 0;  // in the sentence, or in the echo
  uint32_t sentence_ = UINT32_MAX;
  Draws draws_;
  std::string text_;
  std::vector<std::pair<uint32_t, uint32_t>> pieces_;  // offset and length in text_; echo only
};

}  // namespace llmd::sim
