#pragma once

#include "base/result.h"
#include "metric/registry.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Prompts as the tokens that model servers make of them.
namespace llmd::text {

/// Whether this build has tokenizers: it was made with a Rust toolchain.
inline constexpr bool kAvailable = LLMD_TEXT_ENGINE;

using Tokens = std::vector<uint32_t>;

/// How tokenizers work; declared once in a process, for all of them.
struct Metrics {
  static Metrics of(metric::Registry& registry);
  metric::Counter cached_bytes, encoded_bytes;  // of prompts
  metric::Counter evictions;
  metric::Gauge cache_bytes;
};

/// A model's tokenizer and chat template. Its tokens are exactly those of Hugging Face's
/// `tokenizers`, its chats those of vLLM.
///
/// Texts are cut where that does not change their tokens, into segments of kSegmentBytes and more,
/// and the tokens of segments are kept: the next turn of a conversation costs little more than its
/// new part, and so does a document that other prompts began with or had within.
/// Threading: any. Cost: 0.03 µs a byte for new text; do not call on an event loop.
class Tokenizer {
 public:
  static constexpr size_t kSegmentBytes = 2048;
  static constexpr size_t kCacheBytesMax = size_t{256} << 20;

  /// Of a folder with tokenizer.json and, where there are, tokenizer_config.json and
  /// chat_template.jinja; or of the path of tokenizer.json in it. Takes up to a second. Errors name
  /// the file.
  static Result<std::unique_ptr<Tokenizer>> open(const std::string& path, size_t cache_bytes_max,
                                                 const Metrics& metrics);
  ~Tokenizer();

  /// The prompts of a body of /v1/chat/completions (one) or of /v1/completions. Errors say what
  /// cannot be turned into tokens, without its text.
  Result<std::vector<Tokens>> prompts(std::string_view body, bool chat) const;
  /// The text that a chat is rendered to.
  Result<std::string> render_chat(std::string_view body) const;
  /// `framed`: with the tokens that begin and end a sequence.
  Result<Tokens> encode(std::string_view text, bool framed) const;

  /// "fastokens" or "tokenizers"
  std::string_view engine() const;
  bool has_template() const;

 private:
  struct State;
  explicit Tokenizer(std::unique_ptr<State> state);
  const std::unique_ptr<State> state_;
};

}  // namespace llmd::text
