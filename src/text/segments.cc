#include "segments.h"

#include <span>

namespace llmd::text {

Status Segments::append(std::string_view text, Tokens& out) {
  size_t from = 0;
  for (const size_t cut : model_.cuts(text, Tokenizer::kSegmentBytes)) {
    LLMD_TRY(append_segment(text.substr(from, cut - from), out));
    from = cut;
  }
  if (from < text.size()) LLMD_TRY(append_segment(text.substr(from), out));
  return {};
}

Status Segments::append_segment(std::string_view segment, Tokens& out) {
  if (cache_.find(segment, out)) {
    metrics_.cached_bytes.add(static_cast<double>(segment.size()));
    return {};
  }
  const size_t before = out.size();
  LLMD_TRY(model_.encode(segment, out));
  cache_.put(segment, std::span(out).subspan(before));
  metrics_.encoded_bytes.add(static_cast<double>(segment.size()));
  return {};
}

}  // namespace llmd::text
