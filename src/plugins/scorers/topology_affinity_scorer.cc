#include "datalayer/topology.h"
#include "plugin/registry.h"
#include "schedule/attributes.h"
#include "schedule/interfaces.h"
#include "schedule/wiring.h"

namespace llmd::plugins {
namespace {

using schedule::Peer;

/// By Proximity.
constexpr double kScores[] = {1, 0.2, 0.05, 0.02, 0};

struct Params {
  std::string producer = "topology-extractor";
};

const plugin::Params<Params>& table() {
  static const plugin::Params<Params> params = {
      plugin::field("topologyProducerName", &Params::producer, "",
                    "The extractor that knows where endpoints are."),
  };
  return params;
}

class TopologyAffinityScorer final : public schedule::Scorer {
 public:
  TopologyAffinityScorer(Params p, const plugin::Context&) : params_(std::move(p)) {}

  void wire(schedule::Wiring& wiring) override {
    topology_ = wiring.find<TopologySource>(params_.producer);
    peer_ = wiring.consumes_value<Peer>(schedule::kPeerEndpoint, schedule::Need::kOptional);
  }

  void score(schedule::RequestContext& context, std::span<const uint32_t> selected,
             std::span<double> scores) const override {
    const Peer* peer = context.get(peer_);
    if (!peer || !topology_) return;
    const auto& other = *context.candidates[peer->candidate].endpoint;
    for (size_t k = 0; k < selected.size(); ++k)
      scores[k] = kScores[static_cast<size_t>(
          topology_->between(*context.candidates[selected[k]].endpoint, other))];
  }

 private:
  const Params params_;
  const TopologySource* topology_ = nullptr;
  schedule::ConsumedValue<Peer> peer_;
};

}  // namespace

const plugin::Descriptor& topology_affinity_scorer() {
  static const auto descriptor = plugin::describe<TopologyAffinityScorer>(
      {.type = "topology-affinity-scorer",
       .kind = "scorer",
       .summary =
           "Prefers endpoints near the one of the request's other stage: 1 on the same host, "
           "0.2 in the same rack, 0.05 in the same zone, 0.02 in the same region.",
       .stability = plugin::Stability::kAlpha},
      table());
  return descriptor;
}

}  // namespace llmd::plugins
