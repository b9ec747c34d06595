#include "controller_gauges.h"

#include "flow/controller.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace llmd::flow {
namespace {

using metric::Kind;

metric::Family& gauge(metric::Registry& registry, std::string_view name, std::string_view help,
                      std::vector<std::string_view> labels, std::vector<metric::Twin> twins = {}) {
  return registry.family({name, Kind::kGauge, help, std::move(labels), {}, std::move(twins)});
}

double part(int64_t waiting, int64_t most) {
  return most > 0 ? static_cast<double>(waiting) / static_cast<double>(most) : 0;
}

}  // namespace

ControllerGauges::ControllerGauges(Controller& controller, const Clock& clock,
                                   metric::Registry& metrics, std::string pool)
    : controller_(controller),
      clock_(clock),
      pool_(std::move(pool)),
      saturation_(gauge(metrics, "llm_d_epp_flow_control_pool_saturation",
                        "How full the pool is, by stage: 1 is full; 'effective' is the highest and "
                        "decides who is let in.",
                        {"inference_pool", "stage"},
                        {{"inference_extension_flow_control_pool_saturation",
                          {{"inference_pool", "inference_pool"}, {"stage", "stage"}}}})),
      requests_(gauge(metrics, "llm_d_epp_flow_control_capacity_utilization_requests",
                      "Part of the requests that may wait in a band that do.",
                      {"inference_pool", "priority"})),
      bytes_(gauge(metrics, "llm_d_epp_flow_control_capacity_utilization_bytes",
                   "Part of the bytes that may wait in a band that do.",
                   {"inference_pool", "priority"})),
      all_requests_(gauge(metrics, "llm_d_epp_flow_control_global_capacity_utilization_requests",
                          "Part of the requests that may wait in all bands that do.",
                          {"inference_pool"})),
      all_bytes_(gauge(metrics, "llm_d_epp_flow_control_global_capacity_utilization_bytes",
                       "Part of the bytes that may wait in all bands that do.",
                       {"inference_pool"})),
      collector_(metrics.on_collect([this] {
        show_pool();
        controller_.look([this](const Queues& queues) { show_queues(queues); });
      })) {}

void ControllerGauges::show_pool() {
  const Gate::Saturation now = controller_.gate().measure(clock_.now());
  const auto show = [&](std::string_view stage, const std::optional<double>& value) {
    if (!value) return saturation_.forget("stage", stage);
    saturation_.gauge(std::array<std::string_view, 2>{pool_, stage}).set(*value);
  };
  show("prefill", now.prefill);
  show("decode", now.decode);
  show("effective", now.effective);
}

void ControllerGauges::show_queues(const Queues& queues) {
  std::vector<int32_t> present;
  for (const auto& band : queues.bands()) {
    const std::string priority = fmt::format_int(present.emplace_back(band->priority())).str();
    const std::array<std::string_view, 2> labels = {pool_, priority};
    const Limits& limits = band->settings.limits;
    requests_.gauge(labels).set(part(band->waiting.requests, limits.requests));
    bytes_.gauge(labels).set(part(band->waiting.bytes, limits.bytes));
  }
  for (const int32_t gone : exposed_)
    if (std::ranges::find(present, gone) == present.end()) {
      requests_.forget("priority", fmt::format_int(gone).str());
      bytes_.forget("priority", fmt::format_int(gone).str());
    }
  exposed_ = std::move(present);
  const Limits& all = queues.settings().limits;
  show_global(all_requests_, queues.waiting().requests, all.requests);
  show_global(all_bytes_, queues.waiting().bytes, all.bytes);
}

/// Only while there is a limit.
void ControllerGauges::show_global(metric::Family& family, int64_t waiting, int64_t most) {
  if (most == 0) return family.forget("inference_pool", pool_);
  family.gauge(std::array<std::string_view, 1>{pool_}).set(part(waiting, most));
}

}  // namespace llmd::flow
