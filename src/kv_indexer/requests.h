#pragma once

#include "kv_indexer/indexer.h"
#include "request/parser.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace llmd::kv_indexer {

/// What a body or message asks for: prompts that are token ids, or a text that becomes some.
struct ScoreRequest {
  Question question;
  std::optional<render::Question> text;
  std::vector<render::RenderedPrompt> tokens;  // unless there is a text
};

enum class BodyKind : uint8_t { kCompletion, kChat, kEither };

inline constexpr size_t kPodsMax = 4096;     // that a request names
inline constexpr size_t kPromptsMax = 1024;  // of a request

/// A body of the completions or the chat API, with a list "pods" where not all count. kEither: what
/// has "messages" is a chat. `parser` is OpenAI's. Errors name the field.
Result<ScoreRequest> read_body(std::string_view body, BodyKind kind, const request::Parser& parser,
                               const render::TokenSource& tokens);

/// GetPodScoresRequest {prompt 1, model_name 2, pod_identifiers 3}
Result<ScoreRequest> read_message(std::string_view message, const render::TokenSource& tokens);
/// GetPodScoresResponse {scores 1 {pod 1, score 2}}
std::string write_message(const Scores& scores);

/// {"POD": score, …}
std::string pod_scores_json(const Scores& scores);
/// {"block_size_tokens", "total_blocks", "pods": [{"pod", "score", "blocks", "tiers": {"TIER":
/// blocks}}]}
std::string scores_json(const Scores& scores);

}  // namespace llmd::kv_indexer
