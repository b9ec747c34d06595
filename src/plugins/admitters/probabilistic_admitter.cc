#include "refusal_probability.h"

#include "plugin/registry.h"
#include "schedule/interfaces.h"

#include <algorithm>

namespace llmd::plugins {
namespace {

struct Params {
  double queue_depth = 5;
  double kv_cache_util = 0.8;
  double power = 5;
  double k = 300;
};

const plugin::Params<Params>& table() {
  static const plugin::Params<Params> params = {
      plugin::field("queueDepthThreshold", &Params::queue_depth, "requests",
                    "Waiting requests with which an endpoint is full.")
          .positive(),
      plugin::field("kvCacheUtilThreshold", &Params::kv_cache_util, "",
                    "Fraction of the KV cache in use with which an endpoint is full.")
          .positive(),
      plugin::field("power", &Params::power, "",
                    "How steeply the share of refused requests grows with saturation.")
          .positive(),
      plugin::field("k", &Params::k, "",
                    "The share of refused requests at saturation s is k times s to that power, at "
                    "most 1.")
          .positive(),
  };
  return params;
}

class ProbabilisticAdmitter final : public schedule::Admitter {
 public:
  ProbabilisticAdmitter(Params p, const plugin::Context&) : params_(p) {}

  Status admit(schedule::RequestContext& context) const override {
    if (context.priority >= 0 || context.candidates.empty()) return {};
    const double refused =
        refusal_probability(saturation(context.candidates), params_.power, params_.k);
    if (context.rng.uniform() >= refused) return {};
    return fail(Code::kResourceExhausted, "the pool is too full for requests of this priority",
                "rejected-saturated");
  }

 private:
  /// How full the endpoints are on average; one that was never scraped counts as full.
  double saturation(std::span<const schedule::Candidate> candidates) const {
    double sum = 0;
    for (const auto& candidate : candidates) {
      const auto& m = candidate.metrics;
      sum += m.ever_updated()
                 ? std::max(static_cast<double>(m.waiting_queue_size) / params_.queue_depth,
                            m.kv_cache_usage / params_.kv_cache_util)
                 : 1;
    }
    return sum / static_cast<double>(candidates.size());
  }

  const Params params_;
};

}  // namespace

const plugin::Descriptor& probabilistic_admitter() {
  static const auto descriptor = plugin::describe<ProbabilisticAdmitter>(
      {.type = "probabilistic-admitter",
       .kind = "admitter",
       .summary = "Refuses a share of the requests of negative priority that grows with the load "
                  "of the pool."},
      table());
  return descriptor;
}

}  // namespace llmd::plugins
