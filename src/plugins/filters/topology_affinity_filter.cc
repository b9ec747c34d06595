#include "datalayer/topology.h"
#include "plugin/registry.h"
#include "schedule/attributes.h"
#include "schedule/interfaces.h"
#include "schedule/wiring.h"

#include <algorithm>
#include <array>

namespace llmd::plugins {
namespace {

using schedule::Peer;

/// By Proximity.
constexpr std::array<std::string_view, 4> kLevels = {"host", "rack", "zone", "region"};

struct Params {
  std::string min_affinity = "host";
  std::string producer = "topology-extractor";
};

const plugin::Params<Params>& table() {
  static const plugin::Params<Params> params = {
      plugin::field("minAffinity", &Params::min_affinity, "", "How near an endpoint must be.")
          .one_of({kLevels.begin(), kLevels.end()}),
      plugin::field("topologyProducerName", &Params::producer, "",
                    "The extractor that knows where endpoints are."),
  };
  return params;
}

class TopologyAffinityFilter final : public schedule::Filter {
 public:
  TopologyAffinityFilter(Params p, const plugin::Context&)
      : params_(std::move(p)),
        farthest_(static_cast<Proximity>(std::ranges::find(kLevels, params_.min_affinity) -
                                         kLevels.begin())) {}

  void wire(schedule::Wiring& wiring) override {
    topology_ = wiring.find<TopologySource>(params_.producer);
    peer_ = wiring.consumes_value<Peer>(schedule::kPeerEndpoint, schedule::Need::kOptional);
  }

  size_t filter(schedule::RequestContext& context, std::span<uint32_t> selected) const override {
    const Peer* peer = context.get(peer_);
    if (!peer || !topology_) return selected.size();
    const auto& other = *context.candidates[peer->candidate].endpoint;
    size_t kept = 0;
    for (const uint32_t i : selected)
      if (topology_->between(*context.candidates[i].endpoint, other) <= farthest_)
        selected[kept++] = i;
    // With nobody left, nothing was overwritten: all stay.
    return kept > 0 ? kept : selected.size();
  }

 private:
  const Params params_;
  const Proximity farthest_;
  const TopologySource* topology_ = nullptr;
  schedule::ConsumedValue<Peer> peer_;
};

}  // namespace

const plugin::Descriptor& topology_affinity_filter() {
  static const auto descriptor = plugin::describe<TopologyAffinityFilter>(
      {.type = "topology-affinity-filter",
       .kind = "filter",
       .summary = "Keeps endpoints near the one of the request's other stage; all where there are "
                  "none or that is not known.",
       .stability = plugin::Stability::kAlpha},
      table());
  return descriptor;
}

}  // namespace llmd::plugins
