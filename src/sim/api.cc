#include "api.h"

#include "base/text.h"
#include "sim/tokenizer.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace llmd::sim {
namespace {

using nlohmann::json;

constexpr uint32_t kChoicesMax = 1024;  // of one request; far above any real n
constexpr uint32_t kPromptsMax = 4096;  // of one request

std::string_view error_type(int status) {
  switch (status) {
    case 400:
      return "BadRequestError";
    case 401:
      return "AuthenticationError";
    case 403:
      return "PermissionDeniedError";
    case 404:
      return "NotFoundError";
    case 422:
      return "UnprocessableEntityError";
    case 429:
      return "RateLimitError";
    default:
      return status >= 500 ? "InternalServerError" : "APIConnectionError";
  }
}

const json* member(const json& object, const char* key) {
  const auto at = object.find(key);
  return at == object.end() || at->is_null() ? nullptr : &*at;
}

std::optional<ApiError> read_flag(const json& object, const char* key, bool& out) {
  const json* value = member(object, key);
  if (!value) return std::nullopt;
  if (!value->is_boolean()) return ApiError{400, fmt::format("{} must be a boolean", key)};
  out = value->get<bool>();
  return std::nullopt;
}

/// The text of a message's content: a string, or blocks of which text and images count.
void append_content(std::string& out, const json& content) {
  if (content.is_string()) {
    out += content.get_ref<const std::string&>();
    return;
  }
  if (!content.is_array()) return;
  bool first = true;
  const auto add = [&](std::string_view label, const json& text) {
    if (!text.is_string()) return;
    if (!first) out += '\n';
    first = false;
    out += label;
    out += text.get_ref<const std::string&>();
  };
  for (const json& block : content) {
    if (!block.is_object()) continue;
    if (const json* text = member(block, "text")) add("", *text);
    const json* image = member(block, "image_url");
    if (image && image->is_object())
      if (const json* url = member(*image, "url")) add("image: ", *url);
  }
}

std::optional<ApiError> read_chat(const json& body, GenerationRequest& out) {
  const json* messages = member(body, "messages");
  if (!messages || !messages->is_array() || messages->empty())
    return ApiError{400, "messages must be a non-empty array", "messages"};
  for (const json& message : *messages)
    if (!message.is_object())
      return ApiError{400, "messages must contain only objects", "messages"};
  const json* choice = member(body, "tool_choice");
  if (choice && (*choice == "required" || choice->is_object()))
    return ApiError{501, "tool calls are not simulated", "tool_choice"};
  PromptInput& prompt = out.prompts.emplace_back();
  tokenize(chat_prompt(*messages, &prompt.echo), prompt.ids);
  return std::nullopt;
}

std::optional<ApiError> read_ids(const json& list, PromptInput& out) {
  if (list.empty()) return ApiError{400, "prompt must not contain an empty token-id array"};
  for (const json& id : list) {
    if (!id.is_number_unsigned() || id.get<uint64_t>() > UINT32_MAX)
      return ApiError{400, "prompt token ids must be unsigned 32-bit integers", "prompt"};
    out.ids.push_back(id.get<uint32_t>());
    if (!out.echo.empty()) out.echo += ',';
    out.echo += fmt::to_string(out.ids.back());
  }
  return std::nullopt;
}

std::optional<ApiError> read_text(const json& text, PromptInput& out) {
  out.echo = text.get_ref<const std::string&>();
  if (out.echo.empty()) return ApiError{400, "prompt must not contain an empty string", "prompt"};
  tokenize(out.echo, out.ids);
  return std::nullopt;
}

std::optional<ApiError> read_prompts(const json& body, GenerationRequest& out) {
  const json* prompt = member(body, "prompt");
  if (prompt && prompt->is_string()) return read_text(*prompt, out.prompts.emplace_back());
  if (!prompt || !prompt->is_array())
    return ApiError{400, "prompt must be a string, an array of strings or token ids", "prompt"};
  if (prompt->empty())
    return ApiError{400, "prompt array must contain at least one prompt", "prompt"};
  if (prompt->front().is_number()) return read_ids(*prompt, out.prompts.emplace_back());
  if (prompt->size() > kPromptsMax)
    return ApiError{400, fmt::format("prompt array has more than {} prompts", kPromptsMax),
                    "prompt"};
  for (const json& item : *prompt) {
    PromptInput& input = out.prompts.emplace_back();
    std::optional<ApiError> error;
    if (item.is_string())
      error = read_text(item, input);
    else if (item.is_array())
      error = read_ids(item, input);
    else
      error = ApiError{400, "prompt must be a string, an array of strings or token ids", "prompt"};
    if (error) return error;
  }
  return std::nullopt;
}

std::optional<ApiError> read_limits(const json& body, GenerationRequest& out) {
  if (const json* n = member(body, "n")) {
    if (!n->is_number_integer() || n->get<int64_t>() < 1)
      return ApiError{400, "n must be at least 1", "n"};
    if (n->get<int64_t>() > kChoicesMax)
      return ApiError{400, fmt::format("n must be at most {}", kChoicesMax), "n"};
    out.n = n->get<uint32_t>();
  }
  const json* most = out.chat ? member(body, "max_completion_tokens") : nullptr;
  if (!most) most = member(body, "max_tokens");
  if (most) {
    if (!most->is_number_integer() || most->get<int64_t>() <= 0)
      return ApiError{400, "Max completion tokens and max tokens should be positive", "max_tokens"};
    const auto value = static_cast<uint64_t>(most->get<int64_t>());
    out.max_tokens = static_cast<uint32_t>(std::min<uint64_t>(value, UINT32_MAX / 2));
  }
  if (const json* threshold = member(body, "cache_hit_threshold"))
    if (threshold->is_number() && threshold->get<double>() >= 0 && threshold->get<double>() <= 1)
      out.cache_hit_threshold = threshold->get<double>();
  if (const json* salt = member(body, "cache_salt")) {
    if (!salt->is_string() || salt->get_ref<const std::string&>().empty())
      return ApiError{400, "Parameter 'cache_salt' must be a non-empty string if provided.",
                      "cache_salt"};
    out.cache_salt = salt->get<std::string>();
  }
  return std::nullopt;
}

std::optional<ApiError> read_stream(const json& body, GenerationRequest& out) {
  if (auto error = read_flag(body, "stream", out.stream)) return error;
  if (auto error = read_flag(body, "ignore_eos", out.ignore_eos)) return error;
  if (const json* options = member(body, "stream_options"); options && options->is_object()) {
    if (!out.stream)
      return ApiError{400,
                      "Stream options can only be defined when `stream=True`. "
                      "(parameter=stream_options)",
                      "stream_options"};
    if (auto error = read_flag(*options, "include_usage", out.include_usage)) return error;
  }
  if (const json* transfer = member(body, "kv_transfer_params");
      transfer && transfer->is_object()) {
    if (auto error = read_flag(*transfer, "do_remote_decode", out.remote_decode)) return error;
    if (auto error = read_flag(*transfer, "do_remote_prefill", out.remote_prefill)) return error;
  }
  if (out.remote_decode && out.stream) return ApiError{400, "Prefill does not support streaming"};
  if (out.ignore_eos && !out.max_tokens)
    return ApiError{400, "Ignore_eos is true but max_completion_tokens (or max_tokens) is not set"};
  return std::nullopt;
}

void append_usage(std::string& out, const Usage& usage) {
  fmt::format_to(
      std::back_inserter(out), R"({{"prompt_tokens":{},"completion_tokens":{},"total_tokens":{},)",
      usage.prompt_tokens, usage.completion_tokens, usage.prompt_tokens + usage.completion_tokens);
  if (usage.has_details)
    fmt::format_to(std::back_inserter(out), R"("prompt_tokens_details":{{"cached_tokens":{}}}}})",
                   usage.cached_tokens);
  else
    out += R"("prompt_tokens_details":null})";
}

void append_head(std::string& out, const AnswerHead& head, std::string_view object) {
  out += R"({"id":")";
  append_json_escaped(out, head.id);
  out += R"(","model":")";
  append_json_escaped(out, head.model);
  fmt::format_to(std::back_inserter(out), R"(","object":"{}","created":{},)", object, head.created);
}

void append_choice(std::string& out, Choice& choice, bool chat) {
  fmt::format_to(std::back_inserter(out), R"({{"index":{},"finish_reason":"{}",)", choice.index,
                 finish_reason_name(choice.finish));
  if (!chat) {
    out += R"("text":")";
  } else if (choice.emitted == 0) {
    out += R"("message":{"role":"assistant"}})";
    return;
  } else {
    out += R"("message":{"role":"assistant","content":")";
  }
  for (uint32_t i = 0; i < choice.emitted; ++i) append_json_escaped(out, choice.output.next());
  out += chat ? "\"}}" : "\"}";
}

constexpr std::string_view kPrefillResult =
    R"("kv_transfer_params":{"do_remote_decode":false,"do_remote_prefill":true,)"
    R"("remote_engine_id":"DUMMY_ID","remote_block_ids":["DUMMY_ID"],"remote_host":"DUMMY",)"
    R"("remote_port":1234,"tp_size":1},)";

}  // namespace

std::string error_body(const ApiError& error) {
  std::string out = R"({"error":{"message":")";
  append_json_escaped(out, error.message);
  out += fmt::format(R"(","type":"{}","param":)", error_type(error.status));
  out += error.param.empty() ? "null" : fmt::format("\"{}\"", error.param);
  out += fmt::format(R"(,"code":{}}}}})", error.status);
  return out;
}

std::optional<ApiError> parse_object(std::string_view body, json& out) {
  out = json::parse(body, nullptr, false);
  if (out.is_object()) return std::nullopt;
  return ApiError{
      400, fmt::format("Failed to read and parse request body, {}",
                       out.is_discarded() ? "it is not valid JSON" : "it is not a JSON object")};
}

std::string requested_model(const json& body) {
  const json* model = member(body, "model");
  return model && model->is_string() ? model->get<std::string>() : std::string();
}

std::optional<ApiError> read_generation(const json& body, bool chat, GenerationRequest& out) {
  out = {};
  out.chat = chat;
  if (auto error = read_limits(body, out)) return error;
  if (auto error = read_stream(body, out)) return error;
  return chat ? read_chat(body, out) : read_prompts(body, out);
}

std::string chat_prompt(const json& messages, std::string* last) {
  std::string text;
  for (const json& message : messages) {
    const auto field = [&](const char* key) -> std::string_view {
      const json* value = member(message, key);
      return value && value->is_string() ? std::string_view(value->get_ref<const std::string&>())
                                         : std::string_view();
    };
    text += "### ";
    text += field("role");
    if (const auto id = field("tool_call_id"); !id.empty()) text += fmt::format("({})", id);
    text += ": ";
    const size_t start = text.size();
    if (const json* content = member(message, "content")) append_content(text, *content);
    if (last && &message == &messages.back()) last->assign(text, start);
    if (const json* calls = member(message, "tool_calls"); calls && calls->is_array()) {
      for (const json& call : *calls) {
        const json* function = call.is_object() ? member(call, "function") : nullptr;
        if (!function || !function->is_object()) continue;
        const auto part = [&](const char* key) {
          const json* value = member(*function, key);
          return value && value->is_string() ? value->get<std::string>() : std::string();
        };
        text += fmt::format("[{}({})]", part("name"), part("arguments"));
      }
    }
    text += '\n';
  }
  return text;
}

std::optional<ApiError> check_context(const GenerationRequest& request, uint32_t max_model_len) {
  const uint64_t completion = request.max_tokens.value_or(1);
  for (const PromptInput& prompt : request.prompts) {
    const uint64_t total = prompt.ids.size() + completion;
    if (total > max_model_len)
      return ApiError{
          400,
          fmt::format("This model's maximum context length is {} tokens. However, you requested "
                      "{} tokens ({} in the messages, {} in the completion). Please reduce the "
                      "length of the messages or completion",
                      max_model_len, total, prompt.ids.size(), completion)};
  }
  return std::nullopt;
}

std::optional<ApiError> inject_failure(const ServerConfig& config, Draws& draws) {
  if (config.failure_injection_rate == 0 ||
      draws.between(1, 100) > static_cast<int64_t>(config.failure_injection_rate))
    return std::nullopt;
  const auto pick = [&](size_t n) {
    return static_cast<size_t>(draws.between(0, static_cast<int64_t>(n) - 1));
  };
  const std::string_view type = config.failure_types.empty()
                                    ? kFailureTypes[pick(std::size(kFailureTypes))]
                                    : config.failure_types[pick(config.failure_types.size())];
  const std::string& model = config.display_model();
  if (type == "rate_limit")
    return ApiError{429, fmt::format("Rate limit reached for {} in organization org-xxx on "
                                     "requests per min (RPM): Limit 3, Used 3, Requested 1.",
                                     model)};
  if (type == "invalid_api_key") return ApiError{401, "Incorrect API key provided."};
  if (type == "context_length")
    return ApiError{400,
                    "This model's maximum context length is 4096 tokens. However, your messages "
                    "resulted in 4500 tokens.",
                    "messages"};
  if (type == "server_error") return ApiError{503, "The server is overloaded or not ready yet."};
  if (type == "invalid_request")
    return ApiError{400, "Invalid request: missing required parameter 'model'.", "model"};
  return ApiError{404, fmt::format("The model '{}-nonexistent' does not exist", model), "model"};
}

ApiError requested_error(std::string_view header) {
  const auto status = parse_int(header);
  if (!status)
    return {400,
            fmt::format("Invalid X-Return-Error header value \"{}\": must be an integer", header)};
  if (*status < 200 || *status > 599)
    return {400, fmt::format("Invalid X-Return-Error header value \"{}\": must be in [200, 599]",
                             header)};
  return {static_cast<int>(*status),
          fmt::format("Simulated error triggered by X-Return-Error header (code {})", *status)};
}

Usage usage_of(const GenerationRequest& request, const std::vector<Choice>& choices) {
  Usage usage;
  for (const PromptInput& prompt : request.prompts) usage.prompt_tokens += prompt.ids.size();
  for (const Choice& choice : choices) {
    usage.completion_tokens += choice.emitted;
    // The first choice of a prompt says what the cache held when the prompt came.
    if (choice.index % request.n == 0) usage.cached_tokens += choice.cached_tokens;
    if (choice.finish == FinishReason::kCacheThreshold) usage.has_details = false;
  }
  return usage;
}

void append_answer(std::string& out, const AnswerHead& head, const GenerationRequest& request,
                   std::vector<Choice>& choices) {
  append_head(out, head, head.chat ? "chat.completion" : "text_completion");
  if (request.remote_decode) out += kPrefillResult;
  out += R"("usage":)";
  append_usage(out, usage_of(request, choices));
  out += R"(,"choices":[)";
  for (Choice& choice : choices) {
    if (choice.index > 0) out += ',';
    append_choice(out, choice, head.chat);
  }
  out += "]}";
}

void StreamEvents::begin(const AnswerHead& head) {
  chat_ = head.chat;
  prefix_ = "data: ";
  append_head(prefix_, head, chat_ ? "chat.completion.chunk" : "text_completion");
  prefix_ += R"("usage":)";
}

void StreamEvents::open(uint32_t index) {
  event_ = prefix_;
  event_ += R"(null,"choices":[{"index":)";
  event_ += fmt::format_int(index).c_str();
}

std::string_view StreamEvents::role(uint32_t index) {
  open(index);
  event_ += R"(,"finish_reason":null,"delta":{"role":"assistant"}}]})"
            "\n\n";
  return event_;
}

std::string_view StreamEvents::token(uint32_t index, std::string_view text) {
  open(index);
  event_ +=
      chat_ ? R"(,"finish_reason":null,"delta":{"content":")" : R"(,"finish_reason":null,"text":")";
  append_json_escaped(event_, text);
  event_ += chat_ ? "\"}}]}\n\n" : "\"}]}\n\n";
  return event_;
}

std::string_view StreamEvents::finish(uint32_t index, FinishReason reason) {
  open(index);
  event_ += R"(,"finish_reason":")";
  event_ += finish_reason_name(reason);
  event_ += chat_ ? R"(","delta":{}}]})" : R"(","text":""}]})";
  event_ += "\n\n";
  return event_;
}

std::string_view StreamEvents::usage(const Usage& usage) {
  event_ = prefix_;
  append_usage(event_, usage);
  event_ += R"(,"choices":[]})"
            "\n\n";
  return event_;
}

std::string_view StreamEvents::error(const ApiError& error) {
  event_ = "data: " + error_body(error) + "\n\n";
  return event_;
}

}  // namespace llmd::sim
