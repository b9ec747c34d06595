#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace llmd::request {

enum class Api : uint8_t {
  kRaw,
  kCompletions,
  kChat,
  kEmbeddings,
  kResponses,
  kConversations,
  kImages,
  kAudio,
  kMessages,
  kGenerate,
};
std::string_view api_name(Api api);

enum class Modality : uint8_t { kImage, kAudio, kVideo };
inline constexpr size_t kModalities = 3;
std::string_view modality_name(Modality modality);

/// Part of a prompt's byte stream (spec 01 §8). Three kinds:
///  bytes        text that counts as it stands: a view into the body or into the request's arena
///  escaped      the inside of a JSON string literal of the body; its unescaped bytes count
///  placeholder  `count` copies of one token after padding to a whole token: an image, audio or
///  video
struct Piece {
  enum class Kind : uint8_t { kBytes, kEscaped, kPlaceholder };
  Kind kind = Kind::kBytes;
  Modality modality = Modality::kImage;  // of a placeholder
  std::string_view text;
  size_t bytes = 0;  // length in the prompt's byte stream: text.size() for kBytes, the unescaped
                     // length for kEscaped
  uint32_t token = 0;
  uint32_t count = 0;  // of a video: a guess that headers may correct
};

/// An image, audio or video among the client's token ids, by the hash that it has for it.
struct MediaHash {
  Modality modality = Modality::kImage;
  std::string_view hash;  // "": none
  uint32_t offset = 0;    // of its first token, in tokens
  uint32_t length = 0;    // in tokens; 0: the client does not say where it stands
};
/// A request with more media among its token ids is refused.
inline constexpr size_t kMediaMax = 65536;

/// One independent prompt: either token ids given by the client, or pieces of text.
struct Prompt {
  std::span<const uint32_t> token_ids;
  std::span<const MediaHash> media;  // in the token ids
  std::span<const Piece> pieces;
};

/// Bytes of the body, [begin, end).
struct Range {
  size_t begin = 0;
  size_t end = 0;
};

/// What a parser found in a request. Views point into the body and the request's arena and live as
/// long as both.
struct RequestView {
  Api api = Api::kRaw;
  std::string_view model;            // as the client wrote it, unescaped; "" when absent
  std::optional<Range> model_value;  // the JSON value of "model" in the body, quotes included …
  bool model_is_text = false;        // … or the name as it stands
  bool stream = false;
  std::optional<int64_t>
      max_output_tokens;  // the API's cap field, when it holds a whole number >= 0
  std::string_view cache_salt;
  /// Asks how likely the prompt's own tokens are, or may do so ("echo"): engines then compute the
  /// whole prompt, whatever they have cached of it.
  bool prompt_logprobs = false;
  std::span<const Prompt> prompts;
  bool rewritable = false;  // the body may ask for another model
};

/// Numbers of the answer that engines report. Merged over chunks: see UsageScanner.
struct Usage {
  int64_t prompt_tokens = 0;
  int64_t completion_tokens = 0;
  int64_t total_tokens = 0;
  std::optional<int64_t> cached_tokens;
  bool present = false;
};

}  // namespace llmd::request
