#pragma once

#include "plugin/params.h"
#include "render/prompt_renderer.h"
#include "request/request_view.h"
#include "text/tokenizer.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace llmd::render {

// Outside of TokenSourceParams, within which clang knows no defaults of theirs.
struct VllmParams {
  std::string url = "http://localhost:8000";
  Nanos timeout = std::chrono::seconds(5);
  Nanos media_timeout = std::chrono::seconds(30);
};
struct LocalParams {
  std::string path;
  Nanos timeout = std::chrono::seconds(5);
  uint64_t cache_bytes = text::Tokenizer::kCacheBytesMax;
};
/// A service of tokenization.TokenizationService.
struct UdsParams {
  static constexpr const char* kSocket = "/tmp/tokenizer/tokenizer-uds.socket";
  std::string socket = kSocket;
  bool tcp = false;
  std::map<std::string, std::string> models;
};

/// Whom the tokens of prompts are asked of, under the names of `token-producer`'s parameters (spec
/// 05 §9).
struct TokenSourceParams {
  using Vllm = VllmParams;
  using Local = LocalParams;
  using Uds = UdsParams;

  std::string model;
  std::optional<Vllm> vllm;
  std::optional<Local> local;
  std::optional<Uds> uds;
};
const plugin::Params<TokenSourceParams>& token_source_params();

/// What they say: a renderer, and how it is asked.
class TokenSource {
 public:
  TokenSource() = default;
  /// Has the renderer made and warmed up. Errors name the parameter.
  static Result<TokenSource> of(TokenSourceParams params, const PromptRendererSlot& slot);

  /// Null: nobody is asked.
  PromptRenderer* renderer() const { return renderer_.get(); }
  /// The longest that an answer may take.
  Nanos timeout() const { return std::max(timeout_, media_timeout_); }
  /// What to ask for the texts of a request. Errors: its API has none.
  Result<Question> question(const request::RequestView& request, std::string_view body) const;

 private:
  Status use(const TokenSourceParams::Local& local, const PromptRendererSlot& slot);
  Status use(TokenSourceParams::Vllm vllm, const PromptRendererSlot& slot);
  Status use(const TokenSourceParams::Uds& uds, const PromptRendererSlot& slot);

  std::string model_;  // as the renderer calls it; "": requests say so
  Nanos timeout_{0}, media_timeout_{0};
  std::shared_ptr<PromptRenderer> renderer_;
};

/// Whether the prompt has to be turned into tokens.
inline bool is_text(const request::Prompt& prompt) {
  return prompt.token_ids.empty() && !prompt.pieces.empty();
}

}  // namespace llmd::render
