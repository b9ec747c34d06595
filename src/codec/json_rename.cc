#include "codec/json_rename.h"

#include "base/text.h"

#include <algorithm>

namespace llmd::codec {
namespace {

std::string quoted(std::string_view text) {
  std::string out = "\"";
  append_json_escaped(out, text);
  return out += '"';
}

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/// The first place from `at` on where `text` goes on with `word`, or ends within it; npos if none.
size_t find_or_begin(std::string_view text, std::string_view word, size_t at) {
  if (const size_t found = text.find(word, at); found != text.npos) return found;
  for (size_t i = std::max(at, text.size() - std::min(text.size(), word.size() - 1));
       i < text.size(); ++i)
    if (word.starts_with(text.substr(i))) return i;
  return text.npos;
}

}  // namespace

JsonRename::JsonRename(std::string_view key, std::string_view from, std::string_view to)
    : key_(quoted(key)), from_(quoted(from)), to_([&] {
        const std::string text = quoted(to);
        return text.substr(1, text.size() - 2);
      }()) {}

/// Whether the member stands at `at`. Open: the text ends before that is decided.
JsonRename::Found JsonRename::match(std::string_view text, size_t at) const {
  // Whether `word` goes on at `at`, which then stands behind it.
  const auto take = [&](std::string_view word) {
    const std::string_view rest = text.substr(at, word.size());
    if (!word.starts_with(rest)) return Match::kNo;
    at += rest.size();
    return rest.size() == word.size() ? Match::kYes : Match::kOpen;
  };
  const auto skip_space = [&] {
    for (size_t n = 0; n < kSpaceMax && at < text.size() && is_space(text[at]); ++n) ++at;
  };
  if (const Match key = take(key_); key != Match::kYes) return {key};
  skip_space();
  if (const Match colon = take(":"); colon != Match::kYes) return {colon};
  skip_space();
  const size_t value = at + 1;
  return {take(from_), value};
}

std::string_view JsonRename::pass(std::string_view text, bool last) {
  std::string joined;
  if (!held_.empty()) {
    joined = std::move(held_);
    joined += text;
    text = joined;
    held_.clear();
  }
  out_.clear();
  size_t passed = 0;
  size_t at = 0;
  while ((at = find_or_begin(text, key_, at)) != text.npos) {
    const auto [found, value] = match(text, at);
    if (found == Match::kOpen && !last) break;
    if (found != Match::kYes) {
      ++at;
      continue;
    }
    out_ += text.substr(passed, value - passed);
    out_ += to_;
    passed = at = value + from_.size() - 2;
  }
  const std::string_view rest = text.substr(passed, std::min(at, text.size()) - passed);
  if (at != text.npos) held_ = text.substr(at);
  if (passed == 0 && joined.empty()) return rest;
  out_ += rest;
  return out_;
}

}  // namespace llmd::codec
