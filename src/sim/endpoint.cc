#include "endpoint.h"

#include "base/text.h"
#include "sim/request_id.h"

#include <fmt/format.h>

#include <algorithm>

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

Endpoint::Endpoint(io::Loop& l, const EndpointPlan& plan, const ModelClock& c)
    : loop(l),
      clock(c),
      config(plan.config),
      address(plan.address),
      engine(engine_config(plan.config)),
      page(engine, plan.config.display_model(),
           static_cast<uint32_t>(std::max(0, plan.config.data_parallel_rank))),
      started_model(c.now()),
      created(std::chrono::duration_cast<std::chrono::seconds>(c.real().wall().time_since_epoch())
                  .count()),
      timer_(l) {
  config.port = plan.port;
  for (const LoraModule& lora : config.lora_modules) engine.load_adapter(lora.name, lora.path);
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

void Endpoint::reconfigure(ServerConfig changed) {
  config = std::move(changed);
  engine.set_latency(config.latency);
}

}  // namespace llmd::sim
