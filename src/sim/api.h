#pragma once

#include "sim/config.h"
#include "sim/engine.h"
#include "sim/output.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// The JSON of the OpenAI endpoints: bodies in, answers and stream events out. No sockets, no
/// engine calls.
namespace llmd::sim {

/// An answer other than 200, with the OpenAI error envelope.
struct ApiError {
  int status = 400;
  std::string message;
  std::string_view param = {};  // static text; empty: null
};
std::string error_body(const ApiError& error);
/// 400 if `body` is not a JSON object.
std::optional<ApiError> parse_object(std::string_view body, nlohmann::json& out);

struct PromptInput {
  std::vector<uint32_t> ids;
  std::string echo;  // what echo mode answers
};

/// A chat or text completion as asked for.
struct GenerationRequest {
  bool chat = false;
  bool stream = false;
  bool include_usage = false;
  bool ignore_eos = false;
  bool remote_decode = false;
  bool remote_prefill = false;
  std::optional<uint32_t> max_tokens;
  uint32_t n = 1;
  std::optional<double> cache_hit_threshold;  // only when in [0, 1]
  std::string cache_salt;
  std::vector<PromptInput> prompts;
};

/// The body's model, "" when absent. Requires: parse_object() succeeded.
std::string requested_model(const nlohmann::json& body);
std::optional<ApiError> read_generation(const nlohmann::json& body, bool chat,
                                        GenerationRequest& out);
/// The prompt text of chat `messages`; `last` gets the last message's text. Requires: a non-empty
/// array.
std::string chat_prompt(const nlohmann::json& messages, std::string* last = nullptr);

/// 400 when a prompt and the requested completion exceed the context.
std::optional<ApiError> check_context(const GenerationRequest& request, uint32_t max_model_len);

/// The failure that `draws` injects, if any.
std::optional<ApiError> inject_failure(const ServerConfig& config, Draws& draws);
/// The failure that an X-Return-Error header asks for.
ApiError requested_error(std::string_view header);

/// One answer of a request. The sequence's owner is the connection.
struct Choice : Sequence {
  Output output;
  uint32_t index = 0;
  uint32_t prompt_index = 0;
  uint32_t written = 0;  // tokens already in the stream
};

/// What all parts of one answer have in common.
struct AnswerHead {
  bool chat = false;
  std::string id;     // complete, with its prefix
  std::string model;  // as shown
  int64_t created = 0;
};

struct Usage {
  uint64_t prompt_tokens = 0;
  uint64_t completion_tokens = 0;
  uint64_t cached_tokens = 0;
  bool has_details = true;
};
Usage usage_of(const GenerationRequest& request, const std::vector<Choice>& choices);

/// Appends the whole answer. Consumes the choices' outputs.
void append_answer(std::string& out, const AnswerHead& head, const GenerationRequest& request,
                   std::vector<Choice>& choices);

/// The events of one stream. The part that all have in common is rendered once.
class StreamEvents {
 public:
  void begin(const AnswerHead& head);
  // Each returns a view that is valid until the next call.
  std::string_view role(uint32_t index);
  std::string_view token(uint32_t index, std::string_view text);
  std::string_view finish(uint32_t index, FinishReason reason);
  std::string_view usage(const Usage& usage);
  std::string_view error(const ApiError& error);
  static constexpr std::string_view kDone = "data: [DONE]\n\n";

 private:
  void open(uint32_t index);
  bool chat_ = false;
  std::string prefix_;
  std::string event_;
};

}  // namespace llmd::sim
