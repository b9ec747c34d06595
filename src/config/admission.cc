#include "admission.h"

#include "base/text.h"
#include "flow/eviction_hooks.h"
#include "flow/flow_admission.h"
#include "flow/service.h"
#include "flow/sheddable_admission.h"

namespace llmd::config {
namespace {

/// The plugin that `ref` names as a T, which `kind` says.
template <class T>
Result<const T*> policy(const Ref& ref, std::string_view field, std::string_view kind,
                        Instances& instances) {
  LLMD_TRY_ASSIGN(Instance * instance, instances.resolve(ref, field));
  const auto* found = instance->as<T>();
  if (!found) return wrong_kind(ref, *instance, kind);
  instance->used = true;
  return found;
}

Result<flow::BandSettings> band_settings(const Band& band, Instances& instances) {
  flow::BandSettings settings{.priority = band.priority,
                              .limits = {.bytes = *band.bytes_max,
                                         .requests = *band.requests_max,
                                         .tokens = band.tokens_max.value_or(0)}};
  LLMD_TRY_ASSIGN(settings.ordering, policy<flow::OrderingPolicy>(*band.ordering_policy,
                                                                  "flowControl: orderingPolicyRef",
                                                                  "ordering policy", instances));
  LLMD_TRY_ASSIGN(settings.fairness, policy<flow::FairnessPolicy>(*band.fairness_policy,
                                                                  "flowControl: fairnessPolicyRef",
                                                                  "fairness policy", instances));
  return settings;
}

Result<flow::Settings> flow_settings(const FlowControl& given, Instances& instances) {
  flow::Settings settings;
  settings.limits = {.bytes = given.bytes_max.value_or(0),
                     .requests = given.requests_max.value_or(0),
                     .tokens = given.tokens_max.value_or(0)};
  settings.ttl = *given.default_request_ttl;
  settings.no_endpoint_ttl = *given.no_endpoint_request_ttl;
  settings.refuse_late = given.refuse_unmeetable_deadlines;
  settings.retry_after = given.retry_after;
  settings.ttl_header = to_lower(given.request_ttl_header);
  for (const auto& band : given.bands) {
    LLMD_TRY_ASSIGN(auto one, band_settings(band, instances));
    settings.bands.push_back(one);
  }
  LLMD_TRY_ASSIGN(settings.other, band_settings(*given.default_band, instances));
  if (given.default_negative_band) {
    LLMD_TRY_ASSIGN(auto negative, band_settings(*given.default_negative_band, instances));
    settings.other_negative = negative;
  }
  LLMD_TRY_ASSIGN(settings.usage,
                  policy<flow::UsageLimitPolicy>(*given.usage_limit_policy,
                                                 "flowControl.usageLimitPolicyPluginRef",
                                                 "usage limit policy", instances));
  return settings;
}

/// The flow control of the process; where it has none, as in a check, one that nobody runs.
flow::Controller& controller_of(const Environment& environment) {
  using Slot = flow::ControllerSlot;
  const auto slot = environment.state.get<Slot>(Slot::kName, [] { return new Slot; });
  if (slot->get) return slot->get();
  return *environment.state.get<flow::Controller>(Slot::kName, [&] {
    return new flow::Controller(environment.clock, environment.metrics, "pool");
  });
}

bool evicts(const Document& document) {
  return document.gate("flowControl") && document.flow_control.enable_eviction;
}

/// How long after its end a request may still be in what the detector says (spec 03 §9.4).
Nanos eviction_lag(const schedule::SaturationDetector& detector, Nanos scrape_interval) {
  constexpr Nanos kOfLedgers = std::chrono::milliseconds(10);
  constexpr Nanos kOfMetrics = std::chrono::milliseconds(2250);  // beside the scrape interval
  return detector.follows_requests() ? kOfLedgers : scrape_interval + kOfMetrics;
}

}  // namespace

Result<std::unique_ptr<schedule::Admission>> admission(const Document& document,
                                                       Instances& instances,
                                                       const schedule::SaturationDetector& detector,
                                                       const Environment& environment) {
  if (!document.gate("flowControl")) return flow::sheddable_admission(detector);
  LLMD_TRY_ASSIGN(auto settings, flow_settings(document.flow_control, instances));
  settings.detector = &detector;
  flow::Controller& controller = controller_of(environment);
  if (evicts(document)) {
    settings.evictor = controller.evictor();
    settings.eviction_lag = eviction_lag(detector, environment.scrape_interval);
  }
  return flow::flow_admission(controller, std::move(settings));
}

Result<std::unique_ptr<plugin::Plugin>> eviction(const Document& document,
                                                 const Environment& environment) {
  if (!evicts(document)) return nullptr;
  plugin::Descriptor hooks{.type = "eviction", .kind = "hook", .summary = {}};
  hooks.make = [evictor = controller_of(environment).evictor()](
                   const plugin::Context&, const codec::Node*) -> Result<plugin::Made> {
    return plugin::Made{.plugin = std::make_unique<flow::EvictionHooks>(evictor),
                        .parameters = "{}"};
  };
  const plugin::Registry registry({hooks});
  LLMD_TRY_ASSIGN(auto made, registry.make(registry.descriptors()[0],
                                           {hooks.type, environment.state, environment.metrics,
                                            environment.clock},
                                           nullptr));
  return std::move(made.plugin);
}

}  // namespace llmd::config
