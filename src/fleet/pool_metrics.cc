#include "fleet/pool_metrics.h"

#include <array>
#include <cmath>
#include <utility>

namespace llmd::fleet {
namespace {

using metric::Kind;

metric::Gauge pool_gauge(metric::Registry& registry, std::string_view pool, std::string_view name,
                         std::string_view twin, std::string_view help) {
  metric::Definition definition{name, Kind::kGauge, help, {"name"}, {}, {}};
  if (!twin.empty()) definition.twins = {{twin, {{"name", "name"}}}};
  const std::array<std::string_view, 1> labels = {pool};
  return registry.family(definition).gauge(labels);
}

double two_decimals(double v) {
  return std::round(v * 100) / 100;
}

}  // namespace

MeanDeviation mean_deviation(const std::vector<double>& values) {
  const auto n = static_cast<double>(values.size());
  double sum = 0;
  for (const double v : values) sum += v;
  const double mean = sum / n;
  double squares = 0;
  for (const double v : values) squares += (v - mean) * (v - mean);
  return {two_decimals(mean), values.size() > 1 ? two_decimals(std::sqrt(squares / (n - 1))) : 0};
}

PoolMetrics::PoolMetrics(Fleet& fleet, metric::Registry& registry, std::string pool,
                         Nanos stale_after)
    : fleet_(fleet),
      pool_(std::move(pool)),
      stale_after_(stale_after),
      kv_usage_{pool_gauge(registry, pool_, "llm_d_epp_average_kv_cache_utilization",
                           "inference_pool_average_kv_cache_utilization",
                           "Mean KV cache usage of the pool."),
                pool_gauge(registry, pool_, "llm_d_epp_std_dev_kv_cache_utilization", "",
                           "Standard deviation of the KV cache usage.")},
      queue_{pool_gauge(registry, pool_, "llm_d_epp_average_queue_size",
                        "inference_pool_average_queue_size", "Mean number of waiting requests."),
             pool_gauge(registry, pool_, "llm_d_epp_std_dev_queue_size", "",
                        "Standard deviation of the waiting requests.")},
      running_{
          pool_gauge(registry, pool_, "llm_d_epp_average_running_requests",
                     "inference_pool_average_running_requests", "Mean number of running requests."),
          pool_gauge(registry, pool_, "llm_d_epp_std_dev_running_requests", "",
                     "Standard deviation of the running requests.")},
      ready_(pool_gauge(registry, pool_, "llm_d_epp_ready_endpoints", "inference_pool_ready_pods",
                        "Endpoints with fresh metrics.")),
      per_endpoint_(
          registry.family({"llm_d_epp_per_endpoint_queue_size",
                           Kind::kGauge,
                           "Waiting requests of an endpoint.",
                           {"name", "model_server_endpoint"},
                           {},
                           {{"inference_pool_per_pod_queue_size",
                             {{"name", "name"}, {"model_server_pod", "model_server_endpoint"}}}}})),
      refused_(registry
                   .family({"llmd_fleet_endpoints_refused_total",
                            Kind::kCounter,
                            "New endpoints that were refused because the fleet was full.",
                            {},
                            {},
                            {}})
                   .counter({})),
      collector_(registry.on_collect([this] { collect(); })) {}

void PoolMetrics::refresh(TimePoint now) {
  std::vector<double> kv, queue, running;
  const auto snapshot = fleet_.snapshot();
  for (const auto& endpoint : snapshot->endpoints) {
    const EndpointMetrics m = endpoint->metrics.load();
    if (!m.ever_updated() || now - m.updated > stale_after_) continue;
    kv.push_back(m.kv_cache_usage);
    queue.push_back(static_cast<double>(m.waiting_queue_size));
    running.push_back(static_cast<double>(m.running_requests_size));
  }
  ready_.set(static_cast<double>(kv.size()));
  if (kv.empty()) return;
  const auto set = [](const Moments& gauges, const std::vector<double>& values) {
    const auto [mean, deviation] = mean_deviation(values);
    gauges.mean.set(mean);
    gauges.deviation.set(deviation);
  };
  set(kv_usage_, kv);
  set(queue_, queue);
  set(running_, running);
}

void PoolMetrics::collect() {
  const uint64_t refused = fleet_.refused();
  refused_.add(static_cast<double>(refused - std::exchange(refused_counted_, refused)));
  const auto snapshot = fleet_.snapshot();
  if (exposed_ && exposed_->version != snapshot->version)
    for (const auto& endpoint : exposed_->endpoints)
      per_endpoint_.forget("model_server_endpoint", endpoint->spec().name);
  exposed_ = snapshot;
  for (const auto& endpoint : snapshot->endpoints) {
    const std::array<std::string_view, 2> labels = {pool_, endpoint->spec().name};
    per_endpoint_.gauge(labels).set(
        static_cast<double>(endpoint->metrics.load().waiting_queue_size));
  }
}

}  // namespace llmd::fleet
