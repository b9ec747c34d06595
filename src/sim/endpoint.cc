#include "endpoint.h"

#include "base/text.h"
#include "sim/request_id.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

namespace llmd::sim {
namespace {

EngineConfig engine_config(const ServerConfig& c) {
  return {.model = c.display_model(),
          .max_num_seqs = c.max_num_seqs,
          .max_waiting = c.max_waiting_queue_length,
          .max_model_len = c.max_model_len,
          .max_loras = c.max_loras,
          .prefix_cache = c.enable_kvcache,
          .kv_cache_blocks = c.kv_cache_size,
          .block_tokens = c.block_size,
          .latency = c.latency};
}

void append_model(std::string& out, const Endpoint& e, std::string_view id, std::string_view root,
                  std::string_view parent) {
  const auto text = [&](std::string_view value) {
    out += '"';
    append_json_escaped(out, value);
    out += '"';
  };
  out += out.ends_with('[') ? "{\"id\":" : ",{\"id\":";
  text(id);
  out += fmt::format(R"(,"object":"model","created":{},"owned_by":"vllm","root":)", e.created);
  text(root);
  out += ",\"parent\":";
  if (parent.empty())
    out += "null";
  else
    text(parent);
  out += fmt::format(R"(,"max_model_len":{}}})", e.config.max_model_len);
}

}  // namespace

Endpoint::Endpoint(io::Loop& l, const EndpointPlan& plan, const ModelClock& c,
                   kv_events::ZmqContext* zmq)
    : loop(l),
      clock(c),
      config(plan.config),
      address(plan.address),
      events(zmq && !config.kv_events.endpoint.empty()
                 ? std::make_unique<EventPublisher>(l, c, config, *zmq)
                 : nullptr),
      engine(engine_config(plan.config), events.get()),
      page(engine, plan.config.display_model(), rank(), events ? &events->counters() : nullptr),
      started_model(c.now()),
      created(std::chrono::duration_cast<std::chrono::seconds>(c.real().wall().time_since_epoch())
                  .count()),
      timer_(l) {
  config.port = plan.port;
  for (const LoraModule& lora : config.lora_modules) engine.load_adapter(lora.name, lora.path);
}

uint32_t Endpoint::rank() const {
  return static_cast<uint32_t>(std::max(0, config.data_parallel_rank));
}

Status Endpoint::publish_events() {
  if (!events) return {};
  const char* given = std::getenv("POD_IP");
  const std::string_view pod = given && *given        ? given
                               : address == "0.0.0.0" ? "127.0.0.1"
                                                      : std::string_view(address);
  return events->start(fmt::format("kv@{}:{}@{}", pod, config.port, config.display_model()),
                       engine);
}

std::string Endpoint::next_id() {
  return request_id(config.seed, config.port, next_request++);
}

int64_t Endpoint::unix_seconds() const {
  return std::chrono::duration_cast<std::chrono::seconds>(clock.real().wall().time_since_epoch())
      .count();
}

void Endpoint::pump() {
  if (pumping_) return;
  pumping_ = true;
  std::optional<TimePoint> due;
  // A request that begins while another is answered may be due at once; it would wait for the
  // timer's tick.
  do {
    engine.advance(clock.now());
    due = engine.next_due();
  } while (due && *due <= clock.now());
  pumping_ = false;
  if (due)
    timer_.arm(clock.until(*due), [this] { pump(); });
  else
    timer_.cancel();
}

bool Endpoint::serves(std::string_view name) const {
  if (name.empty()) return true;
  const auto& aliases = config.served_model_name;
  return aliases.empty() ? name == config.model : std::ranges::find(aliases, name) != aliases.end();
}

std::string Endpoint::models_body() const {
  std::string out = R"({"object":"list","data":[)";
  if (config.served_model_name.empty()) append_model(out, *this, config.model, config.model, "");
  for (const std::string& alias : config.served_model_name)
    append_model(out, *this, alias, config.model, "");
  for (const Adapter& a : engine.adapters())
    if (a.loaded)
      append_model(out, *this, a.name, a.path.empty() ? a.name : a.path, config.display_model());
  return out + "]}";
}

std::string Endpoint::event_sources_body() const {
  const KvEventsConfig& c = config.kv_events;
  std::string topic;
  if (events) append_json_escaped(topic, events->topic());
  const std::string replay = events ? events->replay_endpoint() : "";
  return fmt::format(
      R"({{"{}":{{"enable_kv_cache_events":{},"publisher":"{}","endpoint":"{}",)"
      R"("replay_endpoint":{},"buffer_steps":{},"hwm":{},"max_queue_size":{},"topic":"{}"}}}})",
      rank(), events != nullptr, events ? "zmq" : "null", events ? events->endpoint() : c.endpoint,
      replay.empty() ? "null" : '"' + replay + '"', c.replay_queue_size,
      EventPublisher::kWaitingMax, EventPublisher::kDelayedMax, topic);
}

void Endpoint::reconfigure(ServerConfig changed) {
  config = std::move(changed);
  engine.set_latency(config.latency);
}

}  // namespace llmd::sim
