#include "media_estimate.h"

#include "plugin/registry.h"
#include "render/token_source.h"
#include "schedule/attributes.h"
#include "schedule/interfaces.h"
#include "schedule/wiring.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace llmd::plugins {
namespace {

using request::Prompt;
using schedule::RequestContext;

struct Params {
  render::TokenSourceParams source;
  std::optional<MediaEstimate> estimate;
};

const plugin::Params<Params>& table() {
  static const plugin::Params<Params> params(
      plugin::lifted(&Params::source, render::token_source_params()),
      {
          plugin::object_field("estimate", &Params::estimate, media_estimate_params(),
                               "How many tokens media are taken to be where nobody tells; neither "
                               "beside modelName nor beside local."),
      });
  return params;
}

/// Tokens: ids where the client gave them; else what a server or a tokenizer makes of the prompt,
/// where one is configured; else the estimate of the parser, in which only videos may be longer or
/// shorter than was guessed. Beside that the plugin stands for the order of those that read
/// prompts.
class TokenProducer final : public schedule::Producer {
 public:
  static Result<std::unique_ptr<TokenProducer>> create(Params params,
                                                       const plugin::Context& context) {
    const auto& [model, vllm, local, uds] = params.source;
    if (params.estimate && (local || !model.empty()))
      return fail(Code::kBadRequest, "give one of 'estimate', 'modelName' and 'local'");
    auto made = std::make_unique<TokenProducer>();
    made->estimate_ = params.estimate;
    using Slot = render::PromptRendererSlot;
    const auto slot = context.state.get<Slot>(Slot::kName, [] { return new Slot; });
    LLMD_TRY_ASSIGN(made->source_, render::TokenSource::of(std::move(params.source), *slot));
    return made;
  }

  void wire(schedule::Wiring& wiring) override {
    wiring.produces<schedule::TokenizedPrompt>();
    asked_ = wiring.request_slot<Asked>();
  }

  Nanos deadline() const override {
    return source_.renderer() ? source_.timeout() : Producer::deadline();
  }

  Result<schedule::Progress> produce(RequestContext& context) const override {
    if (!context.request) return schedule::Progress::kDone;
    resize_media(context, estimate_);
    if (!source_.renderer()) return schedule::Progress::kDone;
    auto& asked = context.slot(asked_);
    if (asked.ticket != 0) {
      const uint64_t ticket = std::exchange(asked.ticket, 0);
      if (context.trace) note_stage(*context.trace, context.request->api, asked.at);
      LLMD_TRY_ASSIGN(const auto prompts, source_.renderer()->take(ticket));
      return replace_prompts(context, prompts);
    }
    // A request that is tried again has what it gets.
    if (asked.once || std::ranges::none_of(context.request->prompts, render::is_text))
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

  Result<uint64_t> ask(RequestContext& context) const {
    LLMD_TRY_ASSIGN(auto question, source_.question(*context.request, context.body));
    return source_.renderer()->ask(std::move(question), context.suspend());
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
  render::TokenSource source_;
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
