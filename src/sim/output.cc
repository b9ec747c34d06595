#include "sim/output.h"

#include "base/check.h"
#include "sim/tokenizer.h"

#include <algorithm>

namespace llmd::sim {
namespace {

// What random answers are made of. Each sentence ends in a space and needs no escaping inside JSON.
constexpr std::string_view kSentences[] = {
    "The harbour lights went out one by one as the tide turned. ",
    "Two engineers compared the readings and found them equal to the last digit. ",
    "A short walk uphill leads to the oldest mill of the valley. ",
    "Most of the rain falls in spring, when nobody has time to complain about it. ",
    "She counted the trains for a week and drew a map from memory. ",
    "Every second shelf of the archive holds letters that were never sent. ",
    "Copper keeps its shine only where hands touch it every day. ",
    "The ferry runs on the hour, except on the days when it does not. ",
    "Measure twice, write it down, and let somebody else read it back. ",
    "Their garden grows best where the neighbour forgot to build a fence. ",
    "An orchestra tunes to the oboe because the oboe will not bend. ",
};

const std::vector<std::vector<std::string_view>>& sentence_tokens() {
  static const auto tokens = [] {
    std::vector<std::vector<std::string_view>> all(std::size(kSentences));
    for (size_t i = 0; i < all.size(); ++i) split_tokens(kSentences[i], all[i]);
    return all;
  }();
  return tokens;
}

}  // namespace

std::array<std::pair<int64_t, int64_t>, 5> length_buckets(int64_t max_tokens) {
  CHECK(max_tokens > 6);
  constexpr int64_t kWidth = 20;  // of all buckets but the fourth, where the maximum allows it
  const int64_t last = max_tokens - 1;
  std::array<std::pair<int64_t, int64_t>, 5> buckets;
  for (int64_t i = 0; i < 5; ++i) {
    if (max_tokens <= 5 * kWidth + 1) {
      buckets[i] = {last * i / 5 + 1, last * (i + 1) / 5};
    } else {
      const int64_t fourth = max_tokens - 4 * kWidth;
      const int64_t start = i < 4 ? i * kWidth : 3 * kWidth + fourth;
      buckets[i] = {start + 1, std::min(start + (i == 3 ? fourth : kWidth), last)};
    }
  }
  return buckets;
}

uint32_t draw_length(std::optional<uint32_t> max_tokens, bool ignore_eos, uint32_t context_left,
                     Draws& draws) {
  if (max_tokens) {
    const int64_t most = *max_tokens;
    if (ignore_eos) return *max_tokens;
    if (most <= 6) return static_cast<uint32_t>(draws.between(1, most));
    constexpr double kCumulative[] = {.2, .5, .7, .75, .85};
    const double u = draws.uniform();
    const auto bucket = static_cast<size_t>(
        std::upper_bound(std::begin(kCumulative), std::end(kCumulative), u) - kCumulative);
    if (bucket == 5) return *max_tokens;
    const auto [low, high] = length_buckets(most)[bucket];
    return static_cast<uint32_t>(draws.between(low, high));
  }
  const int64_t limit = std::max<int64_t>(context_left, 1);
  if (limit < 20) return static_cast<uint32_t>(draws.between(1, limit));
  for (;;) {  // each round accepts with probability above 0.15, so this ends
    const auto length = static_cast<int64_t>(draws.normal(40, 20));
    if (length >= 1 && length <= limit) return static_cast<uint32_t>(length);
  }
}

Output Output::random(uint32_t tokens, Draws draws) {
  Output out;
  out.size_ = tokens;
  out.draws_ = draws;
  return out;
}

Output Output::echo(std::string text) {
  Output out;
  out.text_ = std::move(text);
  std::vector<std::string_view> pieces;
  split_tokens(out.text_, pieces);
  out.pieces_.reserve(pieces.size());
  for (const auto piece : pieces)
    out.pieces_.emplace_back(piece.data() - out.text_.data(), piece.size());
  out.size_ = static_cast<uint32_t>(pieces.size());
  return out;
}

std::string_view Output::next() {
  if (!pieces_.empty()) {
    const auto [offset, length] = pieces_[position_++];
    return std::string_view(text_).substr(offset, length);
  }
  const auto& sentences = sentence_tokens();
  if (sentence_ == UINT32_MAX || position_ == sentences[sentence_].size()) {
    sentence_ = static_cast<uint32_t>(draws_.between(0, std::ssize(sentences) - 1));
    position_ = 0;
  }
  return sentences[sentence_][position_++];
}

}  // namespace llmd::sim
