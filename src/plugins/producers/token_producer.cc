#include "media_estimate.h"

#include "base/text.h"
#include "fleet/static_discovery.h"
#include "plugin/registry.h"
#include "render/anthropic_chat.h"
#include "render/prompt_renderer.h"
#include "schedule/attributes.h"
#include "schedule/interfaces.h"
#include "schedule/wiring.h"
#include "text/tokenizer.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace llmd::plugins {
namespace {

using request::Prompt;
using schedule::RequestContext;

struct Vllm {
  std::string url = "http://localhost:8000";
  Nanos timeout = std::chrono::seconds(5);
  Nanos media_timeout = std::chrono::seconds(30);
};

struct Local {
  std::string path;
  Nanos timeout = std::chrono::seconds(5);
  uint64_t cache_bytes = text::Tokenizer::kCacheBytesMax;
};

/// The reference's tokenization service beside the router.
struct Uds {
  static constexpr const char* kSocket = "/tmp/tokenizer/tokenizer-uds.socket";
  std::string socket = kSocket;
  bool tcp = false;
  std::map<std::string, std::string> models;
};
constexpr Nanos kUdsTimeout = std::chrono::seconds(5);
constexpr Nanos kUdsMediaTimeout = std::chrono::seconds(30);

struct Params {
  std::string model;
  std::optional<Vllm> vllm;
  std::optional<Local> local;
  std::optional<Uds> uds;
  std::optional<MediaEstimate> estimate;
};

const plugin::Params<Params>& table() {
  static const plugin::Params<Vllm> vllm = {
      plugin::field("url", &Vllm::url, "", "Of the server, without a path."),
      plugin::field("timeout", &Vllm::timeout, "",
                    "For an answer; the request then goes on without tokens.")
          .positive(),
      plugin::field("mmTimeout", &Vllm::media_timeout, "",
                    "The same for prompts with images, audio or video.")
          .positive(),
  };
  static const plugin::Params<Local> local = {
      plugin::field("path", &Local::path, "",
                    "Of the model's folder, with tokenizer.json and, where there are, "
                    "tokenizer_config.json and chat_template.jinja."),
      plugin::field("timeout", &Local::timeout, "",
                    "For the tokens; the request then goes on without them.")
          .positive(),
      plugin::field("cacheBytes", &Local::cache_bytes, "bytes",
                    "Memory for the tokens of texts seen before."),
  };
  static const plugin::Params<Uds> uds = {
      plugin::field("socketFile", &Uds::socket, "",
                    "Path of the service's unix socket; with useTCP its host:port."),
      plugin::field("useTCP", &Uds::tcp, "", "Whether the service is on TCP."),
      plugin::field("modelTokenizerMap", &Uds::models, "",
                    "What the service calls models, or where it finds their tokenizers: a folder, "
                    "or a tokenizer.json in it. Given, modelName must be in it."),
  };
  static const plugin::Params<Params> params = {
      plugin::field("modelName", &Params::model, "",
                    "Model whose tokens are wanted. Given without local, a server renders every "
                    "prompt of chats, messages and completions."),
      plugin::object_field("vllm", &Params::vllm, vllm, "The server; needs modelName."),
      plugin::object_field("local", &Params::local, local,
                           "A tokenizer in this process instead of a server."),
      plugin::object_field("udsTokenizerConfig", &Params::uds, uds,
                           "A service of tokenization.TokenizationService instead of a server; "
                           "needs modelName. A prompt may take 5 s, one with media 30 s.")
          .deprecated(),
      plugin::object_field("estimate", &Params::estimate, media_estimate_params(),
                           "How many tokens media are taken to be where nobody tells; neither "
                           "beside modelName nor beside local."),
  };
  return params;
}

bool has_media(const Prompt& prompt) {
  return std::ranges::any_of(prompt.pieces, [](const request::Piece& piece) {
    return piece.kind == request::Piece::Kind::kPlaceholder;
  });
}

bool is_text(const Prompt& prompt) {
  return prompt.token_ids.empty() && !prompt.pieces.empty();
}

/// The request's body with `model` as its model; "": its own.
std::string body_for(const RequestContext& context, std::string_view model) {
  const auto& at = context.request->model_value;
  if (model.empty()) return std::string(context.body);
  std::string name = "\"";
  append_json_escaped(name, model);
  name += '"';
  std::string body(context.body);
  if (at) return body.replace(at->begin, at->end - at->begin, name);
  if (const size_t brace = body.find('{'); brace != body.npos)
    body.insert(brace + 1, "\"model\":" + name + ",");
  return body;
}

/// Tokens: ids where the client gave them; else what a server or a tokenizer makes of the prompt,
/// where one is configured; else the estimate of the parser, in which only videos may be longer or
/// shorter than was guessed. Beside that the plugin stands for the order of those that read
/// prompts.
class TokenProducer final : public schedule::Producer {
 public:
  static Result<std::unique_ptr<TokenProducer>> create(Params params,
                                                       const plugin::Context& context) {
    auto made = std::make_unique<TokenProducer>();
    if (params.estimate && (params.local || !params.model.empty()))
      return fail(Code::kBadRequest, "give one of 'estimate', 'modelName' and 'local'");
    if (params.vllm.has_value() + params.local.has_value() + params.uds.has_value() > 1)
      return fail(Code::kBadRequest, "give one of 'vllm', 'local' and 'udsTokenizerConfig'");
    made->estimate_ = params.estimate;
    using Slot = render::PromptRendererSlot;
    const auto slot = context.state.get<Slot>(Slot::kName, [] { return new Slot; });
    if (params.local) {
      LLMD_TRY(made->use(*params.local, *slot));
    } else if (params.model.empty() && (params.vllm || params.uds)) {
      return fail(Code::kBadRequest, std::string("parameter '") +
                                         (params.vllm ? "vllm" : "udsTokenizerConfig") +
                                         "' needs 'modelName'");
    } else if (params.uds) {
      LLMD_TRY(made->use(*params.uds, params.model, *slot));
    } else if (!params.model.empty()) {
      LLMD_TRY(made->use(params.vllm.value_or(Vllm()), *slot));
    }
    made->model_ = std::move(params.model);
    if (made->renderer_)
      made->renderer_->warm_up({.model = made->model_,
                                .timeout = made->timeout_,
                                .media_timeout = made->media_timeout_});
    return made;
  }

  void wire(schedule::Wiring& wiring) override {
    wiring.produces<schedule::TokenizedPrompt>();
    asked_ = wiring.request_slot<Asked>();
  }

  Nanos deadline() const override {
    return renderer_ ? std::max(timeout_, media_timeout_) : Producer::deadline();
  }

  Result<schedule::Progress> produce(RequestContext& context) const override {
    if (!context.request) return schedule::Progress::kDone;
    resize_media(context, estimate_);
    if (!renderer_) return schedule::Progress::kDone;
    auto& asked = context.slot(asked_);
    if (asked.ticket != 0) {
      const uint64_t ticket = std::exchange(asked.ticket, 0);
      if (context.trace) note_stage(*context.trace, context.request->api, asked.at);
      LLMD_TRY_ASSIGN(const auto prompts, renderer_->take(ticket));
      return replace_prompts(context, prompts);
    }
    // A request that is tried again has what it gets.
    if (asked.once || std::ranges::none_of(context.request->prompts, is_text))
      return schedule::Progress::kDone;
    asked.once = true;
    asked.at = context.clock.now();
    LLMD_TRY_ASSIGN(asked.ticket, ask(context));
    return schedule::Progress::kSuspended;
  }

 private:
  struct Asked {
    uint64_t ticket = 0;  // of the question under way
    bool once = false;
    TimePoint at{};
  };

  /// The question as a span beside that of the plugin, which has begun anew meanwhile.
  static void note_stage(trace::Trace& trace, request::Api api, TimePoint asked_at) {
    trace::Span& span = trace.open(api == request::Api::kCompletions
                                       ? "tokenize_render /v1/completions/render"
                                       : "tokenize_render /v1/chat/completions/render",
                                   trace::Scope::kPlugins);
    span.begin = asked_at;
    span.parent_id = span.parent->parent_id;
    trace.close();
  }

  Status use(const Local& local, const render::PromptRendererSlot& slot) {
    if (local.path.empty()) return fail(Code::kBadRequest, "parameter 'local.path' is missing");
    timeout_ = media_timeout_ = local.timeout;
    if (!slot.of_model) return {};
    auto renderer = slot.of_model({local.path, static_cast<size_t>(local.cache_bytes)});
    if (!renderer) return fail(std::move(renderer).error().in("parameter 'local'"));
    renderer_ = std::move(*renderer);
    return {};
  }

  Status use(Vllm vllm, const render::PromptRendererSlot& slot) {
    while (vllm.url.ends_with('/')) vllm.url.pop_back();
    auto server = fleet::parse_endpoint_flag(vllm.url);
    if (!server) return fail(std::move(server).error().in("parameter 'vllm.url'"));
    timeout_ = vllm.timeout;
    media_timeout_ = vllm.media_timeout;
    if (slot.of_server) renderer_ = slot.of_server(std::move(*server));
    return {};
  }

  /// Puts what the service calls the model in the place of `model`.
  Status use(const Uds& uds, std::string& model, const render::PromptRendererSlot& slot) {
    if (!uds.models.empty()) {
      std::vector<std::string_view> names;
      for (const auto& [name, its] : uds.models) names.push_back(name);
      const auto at = uds.models.find(model);
      if (at == uds.models.end())
        return fail(Code::kBadRequest,
                    "parameter 'udsTokenizerConfig.modelTokenizerMap': has no '" + model + "'" +
                        suggestion(model, names));
      constexpr std::string_view kFile = "/tokenizer.json";
      model = at->second;
      if (model.ends_with(kFile)) model.resize(model.size() - kFile.size());
    }
    fleet::EndpointSpec server;
    if (uds.tcp) {
      auto parsed = fleet::parse_endpoint_flag(uds.socket);
      if (!parsed)
        return fail(std::move(parsed).error().in("parameter 'udsTokenizerConfig.socketFile'"));
      server = std::move(*parsed);
      server.scheme = "grpc";
    } else {
      server.name = uds.socket.empty() ? Uds::kSocket : uds.socket;
      server.scheme = "unix";
    }
    timeout_ = kUdsTimeout;
    media_timeout_ = kUdsMediaTimeout;
    if (slot.of_server) renderer_ = slot.of_server(std::move(server));
    return {};
  }

  Result<uint64_t> ask(RequestContext& context) const {
    const auto& request = *context.request;
    const bool messages = request.api == request::Api::kMessages;
    const bool chat = messages || request.api == request::Api::kChat;
    if (!chat && request.api != request::Api::kCompletions)
      return fail(Code::kBadRequest, std::string("prompts of ") +
                                         std::string(request::api_name(request.api)) +
                                         " cannot be rendered");
    std::string body;
    if (messages) {
      LLMD_TRY_ASSIGN(body, render::chat_of_messages(context.body, model_));
    } else {
      body = body_for(context, model_);
    }
    const bool media = std::ranges::any_of(request.prompts, has_media);
    return renderer_->ask(
        {.chat = chat, .body = std::move(body), .timeout = media ? media_timeout_ : timeout_},
        context.suspend());
  }

  /// Puts the tokens in the place of the texts.
  static Result<schedule::Progress> replace_prompts(
      RequestContext& context, std::span<const render::RenderedPrompt> rendered) {
    if (rendered.size() != context.request->prompts.size())
      return fail(Code::kInternal, "there is not one rendered prompt for each of the request");
    auto prompts = context.arena.array<Prompt>(rendered.size());
    for (size_t i = 0; i < rendered.size(); ++i) {
      auto ids = context.arena.array<uint32_t>(rendered[i].token_ids.size());
      std::ranges::copy(rendered[i].token_ids, ids.begin());
      auto media = context.arena.array<request::MediaHash>(rendered[i].media.size());
      for (size_t m = 0; m < media.size(); ++m) {
        const auto& item = rendered[i].media[m];
        media[m] = {item.modality, context.arena.copy(item.hash), item.offset, item.length};
      }
      prompts[i] = {.token_ids = ids, .media = media, .pieces = {}};
    }
    auto* view = context.arena.make<request::RequestView>(*context.request);
    view->prompts = prompts;
    context.request = view;
    return schedule::Progress::kDone;
  }

  std::optional<MediaEstimate> estimate_;
  std::string model_;
  Nanos timeout_{0}, media_timeout_{0};
  std::shared_ptr<render::PromptRenderer> renderer_;  // null: nothing is rendered
  schedule::RequestSlot<Asked> asked_;
};

}  // namespace

const plugin::Descriptor& token_producer() {
  static const auto descriptor = plugin::describe<TokenProducer>(
      {.type = "token-producer",
       .kind = "producer",
       .summary = "Provides prompts as tokens: ids where the client gave them; with local those "
                  "of a tokenizer in this process; with modelName those of a model server's render "
                  "endpoint; else an estimate of four bytes a token, "
                  "which is also what a request has that could not be rendered. Videos count by "
                  "x-llm-d-video-duration-seconds, -resolution and -fps where the client sends "
                  "them.",
       .produces_by_default = {"TokenizedPrompt/token-producer"}},
      table());
  return descriptor;
}

}  // namespace llmd::plugins
