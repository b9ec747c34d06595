#include "picker.h"

#include "page_reader.h"
#include "plugin_list.h"

#include "base/check.h"
#include "kv_events/batch_decoder.h"
#include "kv_events/topic.h"
#include "kv_precise/precise_cache.h"
#include "route/session.h"

#include <fmt/format.h>

#include <algorithm>

namespace llmd::conformance {
namespace {

constexpr uint16_t kPort = 9100;
/// Headers that plugins set for the server or the client and that cases show.
constexpr std::string_view kShown[] = {"x-prefiller-host-port",     "x-encoder-hosts-ports",
                                       "x-data-parallel-host-port", "x-kv-cache-source-host-port",
                                       "x-session-token",           "x-my-session"};

std::string address(size_t endpoint) {
  return fmt::format("127.0.1.{}", 10 + endpoint);
}

/// Addresses of the fleet by the names of their endpoints.
std::string with_names(std::string text) {
  for (size_t i = 0; i < 12; ++i) {
    const auto host_port = fmt::format("{}:{}", address(i), kPort);
    for (size_t at; (at = text.find(host_port)) != std::string::npos;)
      text.replace(at, host_port.size(), fmt::format("e{}", i));
  }
  return text;
}

std::string document_of(const Case& of) {
  std::string text = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\nplugins:\n";
  text += of.plugins;
  if (!of.data_layer.empty()) text += "\ndataLayer:\n" + of.data_layer;
  return text;
}

}  // namespace

/// One request.
class Picker::Client final : public route::SessionSink {
 public:
  Client(route::LoopDirector& loop, const Step& step, size_t number)
      : id_(fmt::format("r{}", number)), step_(step), session_(loop, *this) {
    if (step_.subset) {
      for (const auto i : *step_.subset) subset_.push_back(address(i));
      for (const auto& one : subset_) subset_views_.emplace_back(one);
      session_.restrict_to(subset_views_);
    }
    headers_.emplace_back("content-type", "application/json");
    for (const auto& [name, value] : step_.headers) headers_.emplace_back(name, value);
    headers_.emplace_back("x-request-id", id_);  // after one of the step, which then counts
    session_.on_headers(step_.path, HeaderView(headers_), false);
    session_.on_body(step_.body);
    session_.on_end(step_.body);
  }

  void finish() {
    if (!session_.active()) return;
    static constexpr HeaderField kHead[] = {{"content-type", "application/json"}};
    session_.on_response_headers(step_.reply_status, HeaderView(kHead));
    note(session_.response_headers(), "answer ");
    auto* const renaming = session_.renaming();
    for (size_t i = 0; i < step_.reply.size(); ++i) {
      const auto& piece = step_.reply[i];
      session_.on_response_body(piece);
      answer.received += renaming ? renaming->pass(piece, i + 1 == step_.reply.size()) : piece;
    }
    session_.on_response_end();
  }
  void abort() { session_.on_abort(); }

  void forward(const route::Forward& f) override {
    for (const auto* endpoint : f.endpoints) {
      if (!answer.picked.empty()) answer.picked += ",";
      answer.picked += endpoint->spec().name;
      if (f.port != 0 && f.port != kPort) answer.picked += fmt::format(":{}", f.port);
    }
    const auto& decision = *f.decision;
    const auto& result = decision.results[decision.primary];
    for (size_t k = 0; k < result.scored.size(); ++k)
      answer.scores[decision.candidates[result.scored[k]].endpoint->spec().name] = result.totals[k];
    note(f.set_headers, "");
    answer.sent.clear();
    size_t at = 0;
    for (const auto& [range, replacement] : f.splices) {
      answer.sent.append(step_.body, at, range.begin - at).append(replacement);
      at = range.end;
    }
    answer.sent.append(step_.body, at);
  }

  void reply(const route::Reply& r) override {
    answer.status = r.status;
    answer.error = r.message;
    answer.reason = r.drop_reason;
  }

  Answer answer;

 private:
  void note(std::span<const HeaderField> fields, std::string_view prefix) {
    for (const auto& [name, value] : fields)
      if (std::ranges::find(kShown, name) != std::end(kShown))
        answer.headers[fmt::format("{}{}", prefix, name)] = with_names(std::string(value));
  }

  const std::string id_;
  const Step step_;
  std::vector<HeaderField> headers_;
  std::vector<std::string> subset_;
  std::vector<std::string_view> subset_views_;
  route::Session session_;  // reads all of these to its end
};

Picker::Picker(const Case& of, request::ObjectsPtr objects)
    : registry_(builtin_plugins()), director_(fleet_, metrics_, clock_) {
  clock_.advance(std::chrono::hours(1));
  auto loaded = config::load(document_of(of), of.name,
                             {.registry = registry_,
                              .state = state_,
                              .metrics = metrics_,
                              .clock = clock_,
                              .fleet = &fleet_,
                              .allow_experimental = true});
  if (!loaded) check_failed(loaded.error().message.c_str(), __FILE__, __LINE__);
  pipeline_ = loaded->pipeline;
  director_.set_pipeline(pipeline_);
  if (objects) director_.set_objects(std::move(objects));
  loop_.emplace(director_, route::LoopHost{executor_, rng_, 0, [this](Nanos delay, auto work) {
                                             timers_.emplace(clock_.now() + delay, std::move(work));
                                           }});
  set_fleet(of, of.endpoints.size());
}

Picker::~Picker() = default;

void Picker::set_fleet(const Case& of, size_t count) {
  std::vector<fleet::EndpointSpec> specs;
  for (size_t i = 0; i < count; ++i) {
    auto labels = of.endpoints[i].labels;
    std::ranges::sort(labels);
    specs.push_back({.name = fmt::format("e{}", i),
                     .address = address(i),
                     .port = kPort,
                     .labels = std::move(labels)});
  }
  fleet_.set(std::move(specs));
  const auto snapshot = fleet_.snapshot();
  for (const auto& endpoint : snapshot->endpoints) {
    const auto i = std::stoul(endpoint->spec().name.substr(1));
    if (const auto status = read_page(*endpoint, of.endpoints[i].metrics); !status)
      check_failed(status.error().message.c_str(), __FILE__, __LINE__);
  }
  executor_.run();
}

Status Picker::read_page(fleet::Endpoint& endpoint, const std::string& page) {
  const auto& options = pipeline_->load_feed()->extractor->options();
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

std::unique_ptr<Picker::Client> Picker::start(const Step& step) {
  return std::make_unique<Client>(*loop_, step, ++requests_);
}

void Picker::settle() {
  for (executor_.run(); !timers_.empty(); executor_.run()) {
    auto next = timers_.extract(timers_.begin());
    clock_.advance(next.key() - clock_.now());
    next.mapped()();
  }
}

void Picker::hear(const Step& step) {
  if (!precise_) {
    const auto plugin = std::ranges::find(pipeline_->resolved, "precise-prefix-cache-producer",
                                          &schedule::ResolvedPlugin::type);
    CHECK(plugin != pipeline_->resolved.end());
    const auto parameters = codec::parse_yaml(plugin->parameters, "parameters");
    CHECK(parameters);
    auto params = kv_precise::precise_params(false).parse(&*parameters);
    CHECK(params && kv_precise::complete(*params));
    precise_ = kv_precise::PreciseCache::of(*params, kv_precise::identity(*params, false),
                                            {plugin->name, state_, metrics_, clock_});
  }
  const auto topic = kv_events::parse_topic(step.topic);
  const auto [engine, fresh] = engines_.try_emplace(step.topic);
  if (fresh) {
    engine->second.pod = topic.pod;
    precise_->feed().on_joined(engine->second);
  }
  kv_events::BatchDecoder decoder(*kv_events::adapters().front());
  const auto batch = decoder.decode(step.payload);
  CHECK(batch && batch->malformed == 0 && batch->unknown == 0);
  precise_->feed().on_batch(engine->second, topic.model, *batch);
}

Answer Picker::run(const Step& step) {
  if (step.op == "kv") {
    hear(step);
    return {};
  }
  if (step.op == "sleep") {
    clock_.advance(std::chrono::milliseconds(step.ms));
    return {};
  }
  if (step.op == "close" || step.op == "abort") {
    const auto client = std::move(open_.extract(step.id).mapped());
    step.op == "close" ? client->finish() : client->abort();
    return client->answer;
  }
  auto client = start(step);
  settle();
  if (step.op != "open") {
    client->finish();
    return client->answer;
  }
  return (open_[step.id] = std::move(client))->answer;
}

std::vector<Answer> Picker::run_together(const Step& step) {
  std::vector<std::unique_ptr<Client>> clients;
  for (const auto& one : step.requests) clients.push_back(start(one));
  settle();
  for (const auto& client : clients) client->finish();
  std::vector<Answer> answers;
  for (size_t i = 0; i < clients.size();) {
    const size_t first = i;
    for (; i < clients.size() && step.requests[i].body == step.requests[first].body; ++i)
      answers.push_back(clients[i]->answer);
    std::ranges::sort(answers.begin() + static_cast<ptrdiff_t>(first), answers.end(), {},
                      &Answer::picked);
  }
  return answers;
}

}  // namespace llmd::conformance
