#include "endpoint_states.h"

#include <nlohmann/json.hpp>

#include <cmath>

namespace llmd::admin {
namespace {

using Json = nlohmann::ordered_json;

double to_millis(double seconds) {
  return std::round(seconds * 1e3) / 1e3;
}

void add_metrics(Json& out, const fleet::EndpointMetrics& metrics, TimePoint now) {
  out["waiting"] = metrics.waiting_queue_size;
  out["running"] = metrics.running_requests_size;
  out["kvUsage"] = std::round(metrics.kv_cache_usage * 1e4) / 1e4;
  out["metricsAgeSeconds"] =
      metrics.ever_updated() ? Json(to_millis(seconds(now - metrics.updated))) : Json(nullptr);
}

Json state(const fleet::Endpoint& endpoint, TimePoint now) {
  const auto& health = endpoint.health;
  Json labels = Json::object();
  for (const auto& [key, value] : endpoint.spec().labels) labels[key] = value;
  Json out = {{"endpoint", endpoint.id()},
              {"address", endpoint.host_port()},
              {"generation", endpoint.generation()},
              {"openRequests", endpoint.open_requests.load(std::memory_order_relaxed)},
              {"health", fleet::health_name(health.state(now))},
              {"ejectionsInARow", health.ejections()},
              {"secondsToProbe", to_millis(seconds(health.wait(now)))},
              {"labels", std::move(labels)}};
  add_metrics(out, endpoint.metrics.load(), now);
  out["promptTokens"] = endpoint.prompt_tokens.load(std::memory_order_relaxed);
  out["cachedTokens"] = endpoint.cached_tokens.load(std::memory_order_relaxed);
  return out;
}

}  // namespace

std::string endpoint_states(const fleet::Snapshot& pool, TimePoint now) {
  Json endpoints = Json::array();
  for (const auto& endpoint : pool.endpoints) endpoints.push_back(state(*endpoint, now));
  return Json{{"endpoints", std::move(endpoints)}}.dump(-1, ' ', false,
                                                        Json::error_handler_t::replace);
}

}  // namespace llmd::admin
