#pragma once

#include "fleet/ledger.h"
#include "metric/registry.h"
#include "plugin/registry.h"

#include <memory>
#include <string_view>

namespace llmd::plugins {

/// The ledger of the inflight-load-producer of one name, and its gauges. Outlives configurations.
/// Threading: any.
class InflightLoads final : public fleet::MembershipListener {
 public:
  /// Those of the producer called `producer`, which charges them.
  static std::shared_ptr<InflightLoads> of(std::string_view producer,
                                           const plugin::Context& context) {
    return context.state.get<InflightLoads>(producer,
                                            [&] { return new InflightLoads(context.metrics); });
  }

  void on_added(const fleet::EndpointPtr& endpoint) override { ledger.on_added(endpoint); }
  void on_removed(const fleet::EndpointPtr& endpoint) override {
    ledger.on_removed(endpoint);
    requests.forget("endpoint_name", endpoint->spec().name);
    tokens.forget("endpoint_name", endpoint->spec().name);
  }

  fleet::Ledger ledger;
  metric::Family& requests;
  metric::Family& tokens;
  metric::LabelGuard fairness{kFairnessLabelsMax};

 private:
  /// Tenants that get series of their own; the rest share "other".
  static constexpr size_t kFairnessLabelsMax = 1000;

  static metric::Definition gauge(std::string_view name, std::string_view help) {
    return {.name = name,
            .kind = metric::Kind::kGauge,
            .help = help,
            .labels = {"endpoint_name", "namespace", "producer_name", "fairness_id", "priority"},
            .buckets = {},
            .twins = {}};
  }

  explicit InflightLoads(metric::Registry& registry)
      : requests(registry.family(
            gauge("llm_d_epp_inflight_requests",
                  "Requests on their way to or running on an endpoint, as this router knows."))),
        tokens(registry.family(
            gauge("llm_d_epp_inflight_tokens",
                  "Uncached tokens on their way to an endpoint, as this router knows."))) {}
};

}  // namespace llmd::plugins
