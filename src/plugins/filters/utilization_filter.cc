#include "plugin/registry.h"
#include "schedule/attributes.h"
#include "schedule/interfaces.h"
#include "schedule/wiring.h"

#include <algorithm>
#include <array>

namespace llmd::plugins {
namespace {

using schedule::InFlightLoad;

enum class Metric : uint8_t { kActiveRequests, kRunningRequests, kWaitingQueue, kKvCache };
constexpr std::array<std::string_view, 4> kMetrics = {
    "active-requests", "running-requests", "waiting-queue", "kv-cache-utilization"};  // by Metric

struct Limit {
  std::string metric;
  std::optional<double> max;
};

struct Params {
  std::vector<Limit> conditions;
  bool fallback_on_empty = false;
  std::string producer = "inflight-load-producer";
};

const plugin::Params<Limit>& limit_table() {
  static const plugin::Params<Limit> params = {
      plugin::field("metric", &Limit::metric, "", "What is limited.")
          .one_of({kMetrics.begin(), kMetrics.end()}),
      plugin::field("maxValue", &Limit::max, "",
                    "The most that an endpoint may have; a fraction for kv-cache-utilization.")
          .min(0),
  };
  return params;
}

const plugin::Params<Params>& table() {
  static const plugin::Params<Params> params = {
      plugin::list_field("conditions", &Params::conditions, limit_table(),
                         "Limits, all of which an endpoint must keep; at least one."),
      plugin::field("fallbackOnEmpty", &Params::fallback_on_empty, "",
                    "Keep all endpoints when none keeps the limits."),
      plugin::field("inFlightLoadProducerName", &Params::producer, "",
                    "Producer of the requests in flight, for active-requests."),
  };
  return params;
}

class UtilizationFilter final : public schedule::Filter {
 public:
  static Result<std::unique_ptr<UtilizationFilter>> create(Params p, const plugin::Context&) {
    if (p.conditions.empty()) return fail(Code::kBadRequest, "parameter 'conditions' is missing");
    auto made = std::make_unique<UtilizationFilter>();
    for (size_t i = 0; i < p.conditions.size(); ++i) {
      const auto& limit = p.conditions[i];
      const std::string where = "parameter 'conditions[" + std::to_string(i) + "].";
      if (limit.metric.empty()) return fail(Code::kBadRequest, where + "metric' is missing");
      if (!limit.max) return fail(Code::kBadRequest, where + "maxValue' is missing");
      const auto metric =
          static_cast<Metric>(std::ranges::find(kMetrics, limit.metric) - kMetrics.begin());
      if (metric == Metric::kKvCache && *limit.max > 1)
        return fail(Code::kBadRequest,
                    where + "maxValue' must be <= 1 with metric " + limit.metric);
      made->conditions_.push_back({metric, *limit.max});
    }
    made->fallback_on_empty_ = p.fallback_on_empty;
    made->producer_ = std::move(p.producer);
    return made;
  }

  void wire(schedule::Wiring& wiring) override {
    if (std::ranges::find(conditions_, Metric::kActiveRequests, &Condition::metric) !=
        conditions_.end())
      load_ = wiring.consumes<InFlightLoad>(producer_, schedule::Need::kRequired);
  }

  size_t filter(schedule::RequestContext& context, std::span<uint32_t> selected) const override {
    const auto load = context.read(load_);
    size_t kept = 0;
    for (const uint32_t i : selected) {
      const auto keeps = [&](const Condition& c) {
        return value(c.metric, context.candidates[i].metrics,
                     load.empty() ? 0 : load[i].requests) <= c.max;
      };
      if (std::ranges::all_of(conditions_, keeps)) selected[kept++] = i;
    }
    // With nobody left, nothing was overwritten: all stay.
    return kept > 0 || !fallback_on_empty_ ? kept : selected.size();
  }

 private:
  struct Condition {
    Metric metric;
    double max;
  };

  static double value(Metric metric, const fleet::EndpointMetrics& metrics, int64_t active) {
    switch (metric) {
      case Metric::kActiveRequests:
        return static_cast<double>(active);
      case Metric::kRunningRequests:
        return static_cast<double>(metrics.running_requests_size);
      case Metric::kWaitingQueue:
        return static_cast<double>(metrics.waiting_queue_size);
      case Metric::kKvCache:
        break;
    }
    return metrics.kv_cache_usage;
  }

  std::vector<Condition> conditions_;
  bool fallback_on_empty_ = false;
  std::string producer_;
  schedule::Consumed<InFlightLoad> load_;
};

}  // namespace

const plugin::Descriptor& utilization_filter() {
  static const auto descriptor = plugin::describe<UtilizationFilter>(
      {.type = "utilization-filter",
       .kind = "filter",
       .summary = "Keeps endpoints whose load is within all of the given limits.",
       .stability = plugin::Stability::kAlpha},
      table());
  return descriptor;
}

}  // namespace llmd::plugins
