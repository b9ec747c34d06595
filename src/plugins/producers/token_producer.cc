#include "base/text.h"
#include "fleet/static_discovery.h"
#include "plugin/registry.h"
#include "render/prompt_renderer.h"
#include "request/video.h"
#include "schedule/attributes.h"
#include "schedule/interfaces.h"
#include "schedule/wiring.h"
#include "text/tokenizer.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace llmd::plugins {
namespace {

using request::Prompt;
using schedule::RequestContext;

/// What the client's headers say of its videos; nothing when they say nothing that is understood.
std::optional<request::VideoHints> video_hints(HeaderView headers) {
  request::VideoHints hints;
  const auto seconds = parse_double(headers.get("x-llm-d-video-duration-seconds"));
  const bool timed = seconds && *seconds > 0;
  if (timed) hints.seconds = *seconds;

  const auto size = headers.get("x-llm-d-video-resolution");
  const size_t by = size.find_first_of("xX");
  const auto width = parse_int(size.substr(0, by));
  const auto height = by == size.npos ? std::nullopt : parse_int(size.substr(by + 1));
  const bool sized = width && height && *width > 0 && *height > 0;
  if (sized) {
    hints.width = static_cast<uint64_t>(*width);
    hints.height = static_cast<uint64_t>(*height);
  }
  return timed || sized ? std::optional(hints) : std::nullopt;
}

bool is_video(const request::Piece& piece) {
  return piece.kind == request::Piece::Kind::kPlaceholder &&
         piece.modality == request::Modality::kVideo;
}

bool has_video(const Prompt& prompt) {
  return std::ranges::any_of(prompt.pieces, is_video);
}

/// Gives the request's videos as many tokens as `hints` say.
void resize_videos(RequestContext& context, const request::VideoHints& hints) {
  auto prompts = context.arena.array<Prompt>(context.request->prompts.size());
  std::ranges::copy(context.request->prompts, prompts.begin());
  for (auto& prompt : prompts) {
    if (!has_video(prompt)) continue;
    auto pieces = context.arena.array<request::Piece>(prompt.pieces.size());
    std::ranges::copy(prompt.pieces, pieces.begin());
    for (auto& piece : pieces)
      if (is_video(piece)) piece.count = request::video_tokens(hints);
    prompt.pieces = pieces;
  }
  auto* view = context.arena.make<request::RequestView>(*context.request);
  view->prompts = prompts;
  context.request = view;
}

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

struct Params {
  std::string model;
  std::optional<Vllm> vllm;
  std::optional<Local> local;
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
  static const plugin::Params<Params> params = {
      plugin::field("modelName", &Params::model, "",
                    "Model whose tokens are wanted. Given without local, a server renders every "
                    "prompt of chats and completions."),
      plugin::object_field("vllm", &Params::vllm, vllm, "The server; needs modelName."),
      plugin::object_field("local", &Params::local, local,
                           "A tokenizer in this process instead of a server."),
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
    using Slot = render::PromptRendererSlot;
    const auto slot = context.state.get<Slot>(Slot::kName, [] { return new Slot; });
    if (params.local) {
      if (params.vllm) return fail(Code::kBadRequest, "give one of 'vllm' and 'local'");
      LLMD_TRY(made->use(*params.local, *slot));
    } else if (!params.model.empty()) {
      LLMD_TRY(made->use(params.vllm.value_or(Vllm()), *slot));
    } else if (params.vllm) {
      return fail(Code::kBadRequest, "parameter 'vllm' needs 'modelName'");
    }
    made->model_ = std::move(params.model);
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
    if (std::ranges::any_of(context.request->prompts, has_video))
      if (const auto hints = video_hints(context.headers)) resize_videos(context, *hints);
    if (!renderer_) return schedule::Progress::kDone;
    auto& asked = context.slot(asked_);
    if (asked.ticket != 0) {
      const uint64_t ticket = std::exchange(asked.ticket, 0);
      LLMD_TRY_ASSIGN(const auto prompts, renderer_->take(ticket));
      return replace_prompts(context, prompts);
    }
    // A request that is tried again has what it gets.
    if (asked.once || std::ranges::none_of(context.request->prompts, is_text))
      return schedule::Progress::kDone;
    asked.once = true;
    LLMD_TRY_ASSIGN(asked.ticket, ask(context));
    return schedule::Progress::kSuspended;
  }

 private:
  struct Asked {
    uint64_t ticket = 0;  // of the question under way
    bool once = false;
  };

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

  Result<uint64_t> ask(RequestContext& context) const {
    const auto& request = *context.request;
    const bool chat = request.api == request::Api::kChat;
    if (!chat && request.api != request::Api::kCompletions)
      return fail(Code::kBadRequest, std::string("prompts of ") +
                                         std::string(request::api_name(request.api)) +
                                         " cannot be rendered");
    const bool media = std::ranges::any_of(request.prompts, has_media);
    return renderer_->ask({.chat = chat,
                           .body = body_for(context, model_),
                           .timeout = media ? media_timeout_ : timeout_},
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
                  "x-llm-d-video-duration-seconds and "
                  "x-llm-d-video-resolution where the client sends them.",
       .produces_by_default = {"TokenizedPrompt/token-producer"}},
      table());
  return descriptor;
}

}  // namespace llmd::plugins
