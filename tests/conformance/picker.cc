#include "picker.h"

#include "page_reader.h"
#include "plugin_list.h"

#include "base/check.h"

#include <algorithm>

namespace llmd::conformance {
namespace {

/// Parsers of APIs beyond OpenAI's, by the path of a step.
std::string_view parser_of(std::string_view path) {
  if (path == "/v1/messages") return "anthropic-parser";
  if (path == "/inference/v1/generate") return "vllmhttp-parser";
  return "openai-parser";
}

std::string document_of(const Case& of) {
  std::string text = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins:\n";
  text += of.plugins;
  if (!of.data_layer.empty()) text += "\ndataLayer:\n" + of.data_layer;
  return text;
}

}  // namespace

struct Picker::Request {
  Request(Rng& rng, const Clock& clock) : context(arena, rng, clock) {}
  Arena arena;
  schedule::RequestContext context;
  request::RequestView view;
  std::string body;
};

Picker::Picker(const Case& of) : registry_(builtin_plugins()) {
  clock_.advance(std::chrono::hours(1));
  missing_ = find_missing(of);
  if (!missing_.empty()) return;
  auto loaded = config::load(document_of(of), of.name,
                             {.registry = registry_,
                              .state = state_,
                              .metrics = metrics_,
                              .clock = clock_,
                              .fleet = &fleet_,
                              .allow_experimental = true});
  if (!loaded) check_failed(loaded.error().message.c_str(), __FILE__, __LINE__);
  pipeline_ = loaded->pipeline;
  if (const auto status = set_fleet(of); !status)
    check_failed(status.error().message.c_str(), __FILE__, __LINE__);
}

Picker::~Picker() = default;

std::string Picker::find_missing(const Case& of) const {
  std::string_view rest = of.plugins;
  constexpr std::string_view kMark = "type: ";
  for (size_t at; (at = rest.find(kMark)) != std::string_view::npos;) {
    rest.remove_prefix(at + kMark.size());
    const auto type = rest.substr(0, rest.find_first_of(",} \n"));
    if (!registry_.find(type)) return std::string(type);
  }
  for (const auto& step : of.steps)
    if (!step.body.empty() && !registry_.find(parser_of(step.path)))
      return std::string(parser_of(step.path));
  return "";
}

Status Picker::set_fleet(const Case& of) {
  std::vector<fleet::EndpointSpec> specs;
  for (size_t i = 0; i < of.endpoints.size(); ++i) {
    auto labels = of.endpoints[i].labels;
    std::ranges::sort(labels);
    specs.push_back({.name = "e" + std::to_string(i),
                     .address = "127.0.1." + std::to_string(10 + i),
                     .port = 9100,
                     .labels = std::move(labels)});
  }
  fleet_.set(std::move(specs));
  const auto snapshot = fleet_.snapshot();
  for (const auto& endpoint : snapshot->endpoints) {
    const auto i = std::stoul(endpoint->spec().name.substr(1));
    LLMD_TRY(read_page(*endpoint, of.endpoints[i].metrics));
  }
  return {};
}

Status Picker::read_page(fleet::Endpoint& endpoint, const std::string& page) {
  const auto& options = pipeline_->metrics_extractor->options();
  const std::string* label = endpoint.label(options.engine_label);
  const auto engine = std::ranges::find(options.engines, label ? *label : options.default_engine,
                                        &fleet::EngineMetrics::name);
  CHECK(engine != options.engines.end());
  fleet::PageReader reader(*engine);
  fleet::EndpointMetrics metrics;
  fleet::EngineDetails details;
  reader.begin();
  reader.feed(page);
  LLMD_TRY(reader.finish(metrics, details));
  metrics.updated = clock_.now();
  endpoint.metrics.store(metrics);
  endpoint.details.store(std::make_shared<const fleet::EngineDetails>(std::move(details)));
  return {};
}

Picker::Answer Picker::run(const Step& step) {
  if (step.op == "sleep") {
    clock_.advance(std::chrono::milliseconds(step.ms));
    return {};
  }
  if (step.op == "close") {
    finish(*open_.at(step.id));
    open_.erase(step.id);
    return {};
  }
  auto request = std::make_unique<Request>(rng_, clock_);
  if (auto status = decide(*request, step); !status)
    return {.error = status.error().message, .picked = {}, .scores = {}};
  Answer made = answer(*request);
  if (step.op == "open")
    open_[step.id] = std::move(request);
  else
    finish(*request);
  return made;
}

Status Picker::decide(Request& request, const Step& step) {
  auto& context = request.context;
  request.body = step.body;
  const auto* parser = pipeline_->parsers.resolve(step.path);
  CHECK(parser != nullptr);
  auto* scan = parser->scan_request(step.path, request.arena);
  scan->feed(request.body);
  LLMD_TRY_ASSIGN(request.view, scan->finish(request.body));
  context.request = &request.view;
  context.target_model = request.view.model;
  context.fairness_id = "default-flow";
  schedule::prepare(context, *pipeline_);
  for (const auto& hook : pipeline_->request) LLMD_TRY(hook.plugin->on_request(context));

  context.snapshot = fleet_.snapshot();
  const auto& endpoints = context.snapshot->endpoints;
  const auto candidates = request.arena.array<schedule::Candidate>(endpoints.size());
  size_t count = 0;
  for (const auto& endpoint : endpoints)
    if (step.op == "probe" || endpoint->spec().name == "e" + std::to_string(step.endpoint))
      candidates[count++] = {endpoint.get(), endpoint->metrics.load()};
  context.candidates = candidates.first(count);

  for (const auto& producer : pipeline_->producers) LLMD_TRY(producer.plugin->produce(context));
  LLMD_TRY(schedule::run_scheduler(context, *pipeline_));
  for (const auto& hook : pipeline_->pre_request) LLMD_TRY(hook.plugin->pre_request(context));
  return {};
}

void Picker::finish(Request& request) {
  const request::Usage usage{.prompt_tokens = 3,
                             .completion_tokens = 2,
                             .total_tokens = 5,
                             .cached_tokens = {},
                             .present = true};
  for (const auto& hook : pipeline_->response) hook.plugin->on_first_chunk(request.context);
  for (const auto& hook : pipeline_->response)
    hook.plugin->on_end(request.context, schedule::EndCause::kNatural, usage);
}

Picker::Answer Picker::answer(const Request& request) const {
  const auto& context = request.context;
  const auto& result = context.results[context.primary];
  Answer made{.error = {}, .picked = context.target().spec().name, .scores = {}};
  for (size_t k = 0; k < result.scored.size(); ++k)
    made.scores[context.candidates[result.scored[k]].endpoint->spec().name] = result.totals[k];
  return made;
}

}  // namespace llmd::conformance
