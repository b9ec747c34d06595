#include "codec/prometheus_scan.h"

#include "base/check.h"
#include "base/text.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <emmintrin.h>
#include <limits>

namespace llmd::codec {
namespace {

bool is_blank(char c) {
  return c == ' ' || c == '\t';
}

std::string_view skip_blanks(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  return text;
}

/// The length of the metric name at the start of `line`: up to '{', a blank or the end.
size_t name_length(std::string_view line) {
  const auto ends_name = [](char c) { return c == '{' || is_blank(c); };
  size_t at = 0;
  for (; line.size() - at >= 16; at += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(line.data() + at));
    const __m128i brace = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('{'));
    const __m128i space = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(' '));
    const __m128i tab = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\t'));
    const auto mask =
        static_cast<uint32_t>(_mm_movemask_epi8(_mm_or_si128(_mm_or_si128(brace, space), tab)));
    if (mask != 0) return at + static_cast<size_t>(std::countr_zero(mask));
  }
  while (at < line.size() && !ends_name(line[at])) ++at;
  return at;
}

/// The place of the brace that closes the labels; `text` starts behind the opening one. npos if
/// there is none.
size_t find_closing_brace(std::string_view text) {
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      quoted = !quoted;
    } else if (quoted && c == '\\') {
      ++i;
    } else if (!quoted && c == '}') {
      return i;
    }
  }
  return text.npos;
}

std::optional<double> read_value(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  if (text.empty() || text.starts_with('+')) return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Takes the next word off `text`.
std::string_view take_word(std::string_view& text) {
  text = skip_blanks(text);
  size_t size = 0;
  while (size < text.size() && !is_blank(text[size])) ++size;
  const std::string_view word = text.substr(0, size);
  text.remove_prefix(size);
  return word;
}

/// The end of the quoted string whose inside starts at `at`; npos if it is not closed.
size_t find_closing_quote(std::string_view text, size_t at) {
  for (; at < text.size(); ++at) {
    if (text[at] == '"') return at;
    if (text[at] == '\\') ++at;
  }
  return text.npos;
}

std::string unescape_label(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 == text.size()) {
      out += text[i];
      continue;
    }
    const char c = text[++i];
    if (c == 'n') {
      out += '\n';
    } else {
      if (c != '"' && c != '\\') out += '\\';
      out += c;
    }
  }
  return out;
}

}  // namespace

PrometheusNames::PrometheusNames(std::span<const std::string_view> names)
    : names_(names.begin(), names.end()) {
  CHECK(names_.size() <= 64);
  for (size_t i = 0; i < names_.size(); ++i) {
    CHECK(names_[i].size() < by_length_.size());
    by_length_[names_[i].size()] |= uint64_t{1} << i;
  }
}

std::optional<size_t> PrometheusNames::find_among(std::string_view name,
                                                  uint64_t candidates) const {
  for (; candidates != 0; candidates &= candidates - 1) {
    const auto i = static_cast<size_t>(std::countr_zero(candidates));
    if (std::memcmp(names_[i].data(), name.data(), name.size()) == 0) return i;
  }
  return std::nullopt;
}

std::optional<std::string> prometheus_label(std::string_view labels, std::string_view name) {
  size_t at = 0;
  while (at < labels.size()) {
    const size_t equals = labels.find('=', at);
    if (equals == labels.npos) return std::nullopt;
    const size_t quote = labels.find('"', equals);
    if (quote == labels.npos || !trim(labels.substr(equals + 1, quote - equals - 1)).empty())
      return std::nullopt;
    const size_t close = find_closing_quote(labels, quote + 1);
    if (close == labels.npos) return std::nullopt;
    if (trim(labels.substr(at, equals - at)) == name)
      return unescape_label(labels.substr(quote + 1, close - quote - 1));
    const size_t comma = labels.find(',', close);
    if (comma == labels.npos) return std::nullopt;
    at = comma + 1;
  }
  return std::nullopt;
}

void PrometheusScanner::feed(std::string_view chunk) {
  while (!chunk.empty() && !saw_end_) {
    const auto* newline = static_cast<const char*>(std::memchr(chunk.data(), '\n', chunk.size()));
    if (!newline) return hold(chunk);
    const auto size = static_cast<size_t>(newline - chunk.data());
    if (skipping_) {
      skipping_ = false;
    } else if (held_.empty()) {
      read_line(chunk.substr(0, size));
    } else {
      hold(chunk.substr(0, size));
      if (!skipping_) read_line(held_);
      skipping_ = false;
      held_.clear();
    }
    chunk.remove_prefix(size + 1);
  }
}

void PrometheusScanner::finish() {
  if (!held_.empty() && !saw_end_) read_line(held_);
  held_.clear();
}

void PrometheusScanner::hold(std::string_view part) {
  if (skipping_) return;
  if (held_.size() + part.size() > kLineMax) {
    skipping_ = true;
    held_.clear();
    ++bad_lines_;
    return;
  }
  held_.append(part);
}

void PrometheusScanner::read_line(std::string_view line) {
  if (line.empty()) return;
  if (static_cast<unsigned char>(line.front()) <= ' ') line = skip_blanks(line);
  if (line.starts_with('#')) {
    saw_end_ = line.starts_with("# EOF") && trim(line) == "# EOF";
    return;
  }
  const size_t length = name_length(line);
  if (const auto index = names_.find(line.substr(0, length)))
    read_rest(*index, line.substr(length));
}

/// Reads `rest`, what follows the name: labels, value, timestamp. An OpenMetrics exemplar behind
/// them is ignored.
void PrometheusScanner::read_rest(size_t index, std::string_view rest) {
  PrometheusSample sample;
  rest = trim(rest);
  if (rest.starts_with('{')) {
    rest.remove_prefix(1);
    const size_t close = find_closing_brace(rest);
    if (close == rest.npos) return void(++bad_lines_);
    sample.labels = rest.substr(0, close);
    rest.remove_prefix(close + 1);
  }
  const auto value = read_value(take_word(rest));
  const std::string_view timestamp = take_word(rest);
  const bool exemplar = timestamp == "#";
  if (!exemplar) {
    sample.timestamp = timestamp;
    const std::string_view more = take_word(rest);
    if (!more.empty() && more != "#") return void(++bad_lines_);
  }
  if (!value || (!sample.timestamp.empty() && !read_value(sample.timestamp)))
    return void(++bad_lines_);
  sample.value = *value;
  sink_.sample(index, sample);
}

}  // namespace llmd::codec
