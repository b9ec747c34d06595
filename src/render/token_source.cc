#include "render/token_source.h"

#include "base/text.h"
#include "fleet/static_discovery.h"
#include "render/anthropic_chat.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace llmd::render {
namespace {

using P = TokenSourceParams;

constexpr Nanos kUdsTimeout = std::chrono::seconds(5);
constexpr Nanos kUdsMediaTimeout = std::chrono::seconds(30);

bool has_media(const request::Prompt& prompt) {
  return std::ranges::any_of(prompt.pieces, [](const request::Piece& piece) {
    return piece.kind == request::Piece::Kind::kPlaceholder;
  });
}

/// The request's body with `model` as its model; "": its own.
std::string body_for(const request::RequestView& request, std::string body,
                     std::string_view model) {
  const auto& at = request.model_value;
  if (model.empty()) return body;
  std::string name = "\"";
  append_json_escaped(name, model);
  name += '"';
  if (at) return body.replace(at->begin, at->end - at->begin, name);
  if (const size_t brace = body.find('{'); brace != body.npos)
    body.insert(brace + 1, "\"model\":" + name + ",");
  return body;
}

}  // namespace

const plugin::Params<P>& token_source_params() {
  static const plugin::Params<P::Vllm> vllm = {
      plugin::field("url", &P::Vllm::url, "", "Of the server, without a path."),
      plugin::field("timeout", &P::Vllm::timeout, "",
                    "For an answer; the request then goes on without tokens.")
          .positive(),
      plugin::field("mmTimeout", &P::Vllm::media_timeout, "",
                    "The same for prompts with images, audio or video.")
          .positive(),
  };
  static const plugin::Params<P::Local> local = {
      plugin::field("path", &P::Local::path, "",
                    "Of the model's folder, with tokenizer.json and, where there are, "
                    "tokenizer_config.json and chat_template.jinja."),
      plugin::field("timeout", &P::Local::timeout, "",
                    "For the tokens; the request then goes on without them.")
          .positive(),
      plugin::field("cacheBytes", &P::Local::cache_bytes, "bytes",
                    "Memory for the tokens of texts seen before."),
  };
  static const plugin::Params<P::Uds> uds = {
      plugin::field("socketFile", &P::Uds::socket, "",
                    "Path of the service's unix socket; with useTCP its host:port."),
      plugin::field("useTCP", &P::Uds::tcp, "", "Whether the service is on TCP."),
      plugin::field("modelTokenizerMap", &P::Uds::models, "",
                    "What the service calls models, or where it finds their tokenizers: a folder, "
                    "or a tokenizer.json in it. Given, modelName must be in it."),
  };
  static const plugin::Params<P> params = {
      plugin::field("modelName", &P::model, "",
                    "Model whose tokens are wanted. Given without local, a server renders every "
                    "prompt of chats, messages and completions."),
      plugin::object_field("vllm", &P::vllm, vllm, "The server; needs modelName."),
      plugin::object_field("local", &P::local, local,
                           "A tokenizer in this process instead of a server."),
      plugin::object_field("udsTokenizerConfig", &P::uds, uds,
                           "A service of tokenization.TokenizationService instead of a server; "
                           "needs modelName. A prompt may take 5 s, one with media 30 s.")
          .deprecated(),
  };
  return params;
}

Result<TokenSource> TokenSource::of(P params, const PromptRendererSlot& slot) {
  if (params.vllm.has_value() + params.local.has_value() + params.uds.has_value() > 1)
    return fail(Code::kBadRequest, "give one of 'vllm', 'local' and 'udsTokenizerConfig'");
  if (params.model.empty() && (params.vllm || params.uds))
    return fail(Code::kBadRequest, std::string("parameter '") +
                                       (params.vllm ? "vllm" : "udsTokenizerConfig") +
                                       "' needs 'modelName'");
  TokenSource source;
  source.model_ = std::move(params.model);
  if (params.local) {
    LLMD_TRY(source.use(*params.local, slot));
  } else if (params.uds) {
    LLMD_TRY(source.use(*params.uds, slot));
  } else if (!source.model_.empty()) {
    LLMD_TRY(source.use(params.vllm.value_or(P::Vllm()), slot));
  }
  if (source.renderer_)
    source.renderer_->warm_up({.model = source.model_,
                               .timeout = source.timeout_,
                               .media_timeout = source.media_timeout_});
  return source;
}

Status TokenSource::use(const P::Local& local, const PromptRendererSlot& slot) {
  if (local.path.empty()) return fail(Code::kBadRequest, "parameter 'local.path' is missing");
  timeout_ = media_timeout_ = local.timeout;
  if (!slot.of_model) return {};
  auto renderer = slot.of_model({local.path, static_cast<size_t>(local.cache_bytes)});
  if (!renderer) return fail(std::move(renderer).error().in("parameter 'local'"));
  renderer_ = std::move(*renderer);
  return {};
}

Status TokenSource::use(P::Vllm vllm, const PromptRendererSlot& slot) {
  while (vllm.url.ends_with('/')) vllm.url.pop_back();
  auto server = fleet::parse_endpoint_flag(vllm.url);
  if (!server) return fail(std::move(server).error().in("parameter 'vllm.url'"));
  timeout_ = vllm.timeout;
  media_timeout_ = vllm.media_timeout;
  if (slot.of_server) renderer_ = slot.of_server(std::move(*server));
  return {};
}

/// Takes over what the service calls the model.
Status TokenSource::use(const P::Uds& uds, const PromptRendererSlot& slot) {
  if (!uds.models.empty()) {
    std::vector<std::string_view> names;
    names.reserve(uds.models.size());
    for (const auto& [name, its] : uds.models) names.push_back(name);
    const auto at = uds.models.find(model_);
    if (at == uds.models.end())
      return fail(Code::kBadRequest, "parameter 'udsTokenizerConfig.modelTokenizerMap': has no '" +
                                         model_ + "'" + suggestion(model_, names));
    constexpr std::string_view kFile = "/tokenizer.json";
    model_ = at->second;
    if (model_.ends_with(kFile)) model_.resize(model_.size() - kFile.size());
  }
  fleet::EndpointSpec server;
  if (uds.tcp) {
    auto parsed = fleet::parse_endpoint_flag(uds.socket);
    if (!parsed)
      return fail(std::move(parsed).error().in("parameter 'udsTokenizerConfig.socketFile'"));
    server = std::move(*parsed);
    server.scheme = "grpc";
  } else {
    server.name = uds.socket.empty() ? P::Uds::kSocket : uds.socket;
    server.scheme = "unix";
  }
  timeout_ = kUdsTimeout;
  media_timeout_ = kUdsMediaTimeout;
  if (slot.of_server) renderer_ = slot.of_server(std::move(server));
  return {};
}

Result<Question> TokenSource::question(const request::RequestView& request,
                                       std::string_view body) const {
  const bool messages = request.api == request::Api::kMessages;
  const bool chat = messages || request.api == request::Api::kChat;
  if (!chat && request.api != request::Api::kCompletions)
    return fail(Code::kBadRequest, std::string("prompts of ") +
                                       std::string(request::api_name(request.api)) +
                                       " cannot be rendered");
  std::string asked;
  if (messages) {
    LLMD_TRY_ASSIGN(asked, chat_of_messages(body, model_));
  } else {
    asked = body_for(request, std::string(body), model_);
  }
  const bool media = std::ranges::any_of(request.prompts, has_media);
  return Question{
      .chat = chat, .body = std::move(asked), .timeout = media ? media_timeout_ : timeout_};
}

}  // namespace llmd::render
