#pragma once

#include "base/result.h"
#include "render/prompt_renderer.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// The messages of tokenization.TokenizationService (spec 05 §9), as those who ask write them and
/// as those who answer read them, and the other way round. Numbers in comments are those of fields.
namespace llmd::render {

/// A method that answers with tokens: its path, and where things are in its answer; 0: nowhere.
/// The message of an error stands behind the field of success.
struct TokenMethod {
  std::string_view path;
  uint32_t id, ids, features, success;
};
/// TokenizeRequest {input 1, model_name 2, add_special_tokens 3}
inline constexpr TokenMethod kTokenize = {"/tokenization.TokenizationService/Tokenize", 0, 1, 0, 2};
/// RenderCompletionRequest {model_name 1, prompt 2}
inline constexpr TokenMethod kRenderCompletion = {
    "/tokenization.TokenizationService/RenderCompletion", 1, 2, 0, 3};
/// RenderChatCompletionRequest {model_name 1, messages 2, tools_json 3, chat_template 4,
/// add_generation_prompt 5, continue_final_message 6, chat_template_kwargs 7}, ChatMessage {role 1,
/// content 2, content_parts 3 {type 1, text 2, image_url 3 {url 1}}, tool_calls_json 4};
/// MultiModalFeatures {mm_hashes 1 {key 1, value 2 {values 1}}, mm_placeholders 2 {key 1, value 2
/// {ranges 1 {offset 1, length 2}}}}
inline constexpr TokenMethod kRenderChat = {
    "/tokenization.TokenizationService/RenderChatCompletion", 1, 2, 3, 4};
/// InitializeTokenizerRequest {model_name 1, add_generation_prompt 3}, InitializeTokenizerResponse
/// {success 1, error_message 2}
inline constexpr std::string_view kInitialize =
    "/tokenization.TokenizationService/InitializeTokenizer";

/// What is asked for, as a render endpoint would be.
struct Asked {
  std::string model;
  bool chat = false;
  std::string body;  // JSON
};
Result<Asked> read_tokenize(std::string_view message);
Result<Asked> read_completion(std::string_view message);
Result<Asked> read_chat(std::string_view message);
/// The model.
Result<std::string> read_initialize(std::string_view message);

struct TokenRequest {
  const TokenMethod* method = nullptr;
  std::string message;
};
/// The other way: a request for each prompt in the body of a render endpoint. What the messages
/// have no field for is left out. Errors: the body is none, or has content that they cannot hold.
Result<std::vector<TokenRequest>> write_requests(std::string_view body, bool chat);
std::string write_initialize(std::string_view model);

/// An answer with the first prompt; features are not written.
std::string write_answer(const TokenMethod& method, std::string_view id, const Rendered& prompts);
std::string write_initialized(const Status& outcome);

/// Errors are those that the answer holds, in part, or tell what is wrong with it.
Result<RenderedPrompt> read_answer(const TokenMethod& method, std::string_view message);
Status read_initialized(std::string_view message);

}  // namespace llmd::render
