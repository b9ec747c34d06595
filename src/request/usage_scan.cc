#include "usage_scan.h"

#include "codec/json_scan.h"
#include "codec/sse_scan.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <emmintrin.h>

namespace llmd::request {
namespace {

using codec::JsonKind;
using codec::JsonValue;

constexpr size_t kHeldBytes = 1024;

enum : uint8_t {
  kRoot,
  kResponse,
  kUsage,
  kPrompt,
  kInput,
  kCompletion,
  kOutput,
  kTotal,
  kDetails,
  kInputDetails,
  kCached,
  kInputCached,
};
constexpr codec::JsonField kOpenAiFields[] = {
    {kRoot, "usage", kUsage},
    {kRoot, "response", kResponse},
    {kResponse, "usage", kUsage},
    {kUsage, "prompt_tokens", kPrompt},
    {kUsage, "input_tokens", kInput},
    {kUsage, "completion_tokens", kCompletion},
    {kUsage, "output_tokens", kOutput},
    {kUsage, "total_tokens", kTotal},
    {kUsage, "prompt_tokens_details", kDetails},
    {kUsage, "input_tokens_details", kInputDetails},
    {kDetails, "cached_tokens", kCached},
    {kInputDetails, "cached_tokens", kInputCached},
};
constexpr codec::JsonField kAnthropicFields[] = {
    {kRoot, "usage", kUsage},           {kRoot, "message", kResponse},
    {kResponse, "usage", kUsage},       {kUsage, "input_tokens", kInput},
    {kUsage, "output_tokens", kOutput}, {kUsage, "cache_read_input_tokens", kInputCached},
};
constexpr codec::JsonField kSglangFields[] = {
    {kRoot, "meta_info", kUsage},
    {kUsage, "prompt_tokens", kPrompt},
    {kUsage, "completion_tokens", kCompletion},
    {kUsage, "cached_tokens", kInputCached},
};

struct Format {
  codec::JsonSchema schema;
  std::string_view word;  // is in every event that counts, with a value other than null
};
constexpr Format kFormats[] = {{codec::JsonSchema(kOpenAiFields), "usage"},
                               {codec::JsonSchema(kAnthropicFields), "usage"},
                               {codec::JsonSchema(kSglangFields), "finish_reason"}};

const Format& format_of(UsageFormat format) {
  return kFormats[static_cast<size_t>(format)];
}

/// A count: a number or a numeric string. Fractions are cut off, as by the reference.
std::optional<int64_t> count_of(const JsonValue& v) {
  const std::string_view text = v.kind == JsonKind::kString ? v.inside() : v.text;
  if (text.empty() || (v.kind != JsonKind::kNumber && v.kind != JsonKind::kString))
    return std::nullopt;
  constexpr size_t kWholeDigits = 15;  // below 2^53
  if (text.size() <= kWholeDigits) {
    int64_t whole = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), whole);
    if (parsed.ec == std::errc() && parsed.ptr == text.data() + text.size())
      return whole >= 0 ? std::optional(whole) : std::nullopt;
  }
  double value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return std::nullopt;
  if (!(value >= 0 && value < 0x1p53)) return std::nullopt;
  return static_cast<int64_t>(value);
}

/// Gathers the counts of one document and merges each usage object into `usage` as it closes.
class UsageSink final : public codec::JsonSink {
 public:
  explicit UsageSink(Usage& usage) : usage_(usage) {}

  void open(uint8_t id, JsonKind, size_t) override {
    if (id == kUsage) std::fill(std::begin(counts_), std::end(counts_), std::nullopt);
  }

  void value(uint8_t id, const JsonValue& v) override {
    if (id == kUsage) {
      if (v.kind == JsonKind::kObject) merge();
    } else if (id > kUsage) {
      counts_[id] = count_of(v);
    }
  }

 private:
  void merge() {
    const auto first = [this](uint8_t a, uint8_t b) {
      return counts_[a] ? counts_[a] : counts_[b];
    };
    const auto prompt = first(kPrompt, kInput);
    const auto completion = first(kCompletion, kOutput);
    const auto cached = first(kInputCached, kCached);
    if (prompt.value_or(0) != 0) usage_.prompt_tokens = *prompt;
    if (completion.value_or(0) != 0) usage_.completion_tokens = *completion;
    if (cached) usage_.cached_tokens = cached;
    const bool whole = prompt && completion && counts_[kTotal];
    usage_.total_tokens =
        whole ? *counts_[kTotal] : usage_.prompt_tokens + usage_.completion_tokens;
    usage_.present = true;
  }

  Usage& usage_;
  std::optional<int64_t> counts_[kInputCached + 1];
};

class JsonUsage final : public UsageScan {
 public:
  explicit JsonUsage(const Format& format) : sink_(usage_), scanner_(format.schema, sink_) {}
  void feed(std::string_view chunk) override { scanner_.feed_chunk(chunk); }
  void finish() override { scanner_.finish(); }

 private:
  UsageSink sink_;
  codec::JsonScanner scanner_;
};

/// The first `word` in `text`, or npos. Looks for its first and last letter sixteen places at a
/// time.
size_t find_word(std::string_view text, std::string_view word) {
  size_t at = 0;
  for (; at + 16 + word.size() - 1 <= text.size(); at += 16) {
    const auto load = [&](size_t i) {
      return _mm_loadu_si128(reinterpret_cast<const __m128i*>(text.data() + i));
    };
    const __m128i first = _mm_cmpeq_epi8(load(at), _mm_set1_epi8(word.front()));
    const __m128i last = _mm_cmpeq_epi8(load(at + word.size() - 1), _mm_set1_epi8(word.back()));
    auto mask = static_cast<uint32_t>(_mm_movemask_epi8(_mm_and_si128(first, last)));
    for (; mask != 0; mask &= mask - 1) {
      const size_t place = at + static_cast<size_t>(std::countr_zero(mask));
      if (std::memcmp(text.data() + place, word.data(), word.size()) == 0) return place;
    }
  }
  return text.find(word, at);
}

/// Whether `line` has the key `word` with a value other than null. Some servers send null in every
/// event.
bool mentions(std::string_view line, std::string_view word) {
  while (true) {
    const size_t place = find_word(line, word);
    if (place == line.npos) return false;
    line.remove_prefix(place + word.size());
    if (!line.starts_with("\":null") && !line.starts_with("\": null")) return true;
  }
}

class SseUsage final : public UsageScan, private codec::SseSink {
 public:
  SseUsage(const Format& format, Arena& arena)
      : format_(format),
        lines_(*this, arena.array<char>(kHeldBytes)),
        sink_(usage_),
        long_line_(format.schema, sink_) {}

  void feed(std::string_view chunk) override { lines_.feed(chunk); }
  void finish() override { lines_.finish(); }

 private:
  void data(std::string_view line) override {
    if (line == "[DONE]") return;
    ++events_;
    if (!mentions(line, format_.word)) return;
    codec::JsonScanner scanner(format_.schema, sink_);
    scanner.feed(line);
  }

  void data_part(std::string_view text, bool first, bool) override {
    if (first) {
      ++events_;
      new (&long_line_) codec::JsonScanner(format_.schema, sink_);
    }
    long_line_.feed_chunk(text);
  }

  const Format& format_;
  codec::SseScanner lines_;
  UsageSink sink_;
  codec::JsonScanner long_line_;
};

}  // namespace

UsageScan* scan_json_usage(UsageFormat format, Arena& arena) {
  return arena.make<JsonUsage>(format_of(format));
}
UsageScan* scan_sse_usage(UsageFormat format, Arena& arena) {
  return arena.make<SseUsage>(format_of(format), arena);
}

}  // namespace llmd::request
