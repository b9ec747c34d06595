#pragma once

#include "base/result.h"
#include "render/prompt_renderer.h"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

/// The messages of tokenization.TokenizationService, as questions and as answers. Numbers in
/// comments are those of fields.
namespace llmd::token_service {

struct Asked {
  std::string model;
  bool chat = false;
  std::string body;  // JSON of a render endpoint
};

/// TokenizeRequest {input 1, model_name 2, add_special_tokens 3}
Result<Asked> read_tokenize(std::string_view message);
/// RenderCompletionRequest {model_name 1, prompt 2}
Result<Asked> read_completion(std::string_view message);
/// RenderChatCompletionRequest {model_name 1, messages 2, tools_json 3, chat_template 4,
/// add_generation_prompt 5, continue_final_message 6, chat_template_kwargs 7}, ChatMessage {role 1,
/// content 2, content_parts 3 {type 1, text 2, image_url 3 {url 1}}, tool_calls_json 4}
Result<Asked> read_chat(std::string_view message);
/// InitializeTokenizerRequest {model_name 1}
Result<std::string> read_initialize(std::string_view message);

/// TokenizeResponse {input_ids 1, success 2, error_message 3}; it has no id.
std::string tokenize_answer(std::string_view id,
                            const Result<std::vector<render::RenderedPrompt>>& prompts);
/// InitializeTokenizerResponse {success 1, error_message 2}
std::string initialize_answer(const Status& outcome);
/// RenderCompletionResponse {request_id 1, token_ids 2, success 3, error_message 4}
std::string completion_answer(std::string_view id,
                              const Result<std::vector<render::RenderedPrompt>>& prompts);
/// RenderChatCompletionResponse {request_id 1, token_ids 2, features 3, success 4, error_message 5}
std::string chat_answer(std::string_view id,
                        const Result<std::vector<render::RenderedPrompt>>& prompts);

}  // namespace llmd::token_service
