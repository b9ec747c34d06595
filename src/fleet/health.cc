#include "fleet/health.h"

#include "base/log.h"
#include "fleet/fleet.h"

#include <algorithm>

namespace llmd::fleet {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr std::array<std::string_view, 3> kCauses = {"connect", "status_5xx", "timeout"};

int64_t ticks(TimePoint t) {
  return t.time_since_epoch().count();
}

/// Whether more than half of `pool` is out of the choice.
bool too_many_ejected(const Snapshot& pool) {
  const auto out = std::ranges::count_if(
      pool.endpoints, [](const auto& endpoint) { return !endpoint->health.healthy(); });
  return static_cast<size_t>(out) * 2 > pool.endpoints.size();
}

}  // namespace

Nanos EndpointHealth::wait(TimePoint now) const {
  return Nanos(std::max<int64_t>(0, retry_at_.load(kRelaxed) - ticks(now)));
}

void EndpointHealth::carry_over(const EndpointHealth& earlier) {
  retry_at_ = earlier.retry_at_.load();
  ejections_ = earlier.ejections_.load();
  strikes_ = earlier.strikes_.load();
}

std::string_view health_name(EndpointHealth::State state) {
  constexpr std::array<std::string_view, 3> kNames = {"healthy", "ejected", "half-open"};
  return kNames[static_cast<size_t>(state)];
}

/// One gauge an endpoint, 1 while it is out of the choice.
struct Ejector::Gauges {
  Gauges(Fleet& f, metric::Registry& registry)
      : fleet(f),
        ejected(registry.family({"llmd_fleet_endpoint_ejected",
                                 metric::Kind::kGauge,
                                 "1 while an endpoint is not chosen because it failed.",
                                 {"endpoint_name", "namespace"},
                                 {},
                                 {}})),
        collector(registry.on_collect([this] { collect(); })) {}

  void collect() {
    const auto now = fleet.snapshot();
    if (shown && shown->version != now->version)
      for (const auto& endpoint : shown->endpoints)
        ejected.forget("endpoint_name", endpoint->spec().name);
    shown = now;
    for (const auto& endpoint : now->endpoints) {
      const std::array<std::string_view, 2> labels = {endpoint->spec().name, endpoint->spec().ns};
      ejected.gauge(labels).set(endpoint->health.healthy() ? 0 : 1);
    }
  }

  Fleet& fleet;
  metric::Family& ejected;
  SnapshotPtr shown;
  std::shared_ptr<void> collector;
};

Ejector::Ejector(Fleet& fleet, metric::Registry& metrics, EjectionOptions options)
    : options_(options) {
  if (!options_.enabled) return;
  auto& ejections = metrics.family({"llmd_fleet_ejections_total",
                                    metric::Kind::kCounter,
                                    "Times an endpoint was taken out of the choice.",
                                    {"cause"},
                                    {},
                                    {}});
  for (size_t i = 0; i < kCauses.size(); ++i)
    ejections_[i] = ejections.counter(std::array<std::string_view, 1>{kCauses[i]});
  withheld_ = metrics
                  .family({"llmd_fleet_ejections_withheld_total",
                           metric::Kind::kCounter,
                           "Ejections left out because half of the pool was ejected already.",
                           {},
                           {},
                           {}})
                  .counter({});
  gauges_ = std::make_unique<Gauges>(fleet, metrics);
}

Ejector::~Ejector() = default;

void Ejector::sent(Endpoint& endpoint, TimePoint now) const {
  auto& health = endpoint.health;
  int64_t at = health.retry_at_.load(kRelaxed);
  if (at == 0 || ticks(now) < at) return;
  const int64_t until = ticks(now + backoff(health.ejections()));
  if (health.retry_at_.compare_exchange_strong(at, until)) health.probing_ = true;
}

void Ejector::answered(Endpoint& endpoint) const {
  auto& health = endpoint.health;
  if (health.strikes_.load(kRelaxed) != 0) health.strikes_ = 0;
  if (health.healthy()) return;
  health.probing_ = false;
  health.ejections_ = 0;
  if (health.retry_at_.exchange(0) != 0)
    log::info("endpoint is chosen again", {{"endpoint", endpoint.id()}});
}

void Ejector::failed(Endpoint& endpoint, Cause cause, const Snapshot& pool, TimePoint now) const {
  if (!options_.enabled) return;
  auto& health = endpoint.health;
  if (health.healthy()) {
    if (cause != Cause::kConnect && health.strikes_.fetch_add(1) + 1 < options_.strikes) return;
  } else if (!health.probing_.exchange(false)) {
    return;  // sent before the ejection
  }
  const uint32_t in_a_row = health.ejections_.fetch_add(1) + 1;
  const Nanos wait = backoff(in_a_row);
  const bool was_healthy = health.retry_at_.exchange(ticks(now + wait)) == 0;
  // Marked first and counted then: two loops at once eject too few rather than too many.
  if (was_healthy && too_many_ejected(pool)) {
    health.ejections_ = 0;
    health.retry_at_ = 0;
    withheld_.add();
    return;
  }
  const auto name = kCauses[static_cast<size_t>(cause)];
  ejections_[static_cast<size_t>(cause)].add();
  log::warn("endpoint is ejected",
            {{"endpoint", endpoint.id()}, {"cause", name}, {"seconds", seconds(wait)}});
}

Nanos Ejector::backoff(uint32_t ejections) const {
  const uint32_t doublings = std::min(std::max(ejections, 1u) - 1, 30u);
  return std::min(options_.backoff_min * (int64_t{1} << doublings), options_.backoff_max);
}

}  // namespace llmd::fleet
