#pragma once

#include "model.h"
#include "token_cache.h"

#include <string_view>

namespace llmd::text {

/// Encodes texts in segments whose tokens are kept. Threading: any.
class Segments {
 public:
  Segments(const Model& model, size_t cache_bytes_max, const Metrics& metrics)
      : model_(model), metrics_(metrics), cache_(cache_bytes_max, metrics) {}

  /// Appends the tokens of a text without its frame.
  Status append(std::string_view text, Tokens& out);

 private:
  Status append_segment(std::string_view segment, Tokens& out);

  const Model& model_;
  const Metrics metrics_;
  TokenCache cache_;
};

}  // namespace llmd::text
