#include "topology.h"

#include "plugin/registry.h"

#include <array>

namespace llmd::plugins {
namespace {

struct Params {
  std::string hostname = "kubernetes.io/hostname";
  std::string rack = "topology.kubernetes.io/rack";
  std::string zone = "topology.kubernetes.io/zone";
  std::string region = "topology.kubernetes.io/region";
};

const plugin::Params<Params>& table() {
  static const plugin::Params<Params> params = {
      plugin::field("hostnameLabel", &Params::hostname, "", "Endpoint label with the host."),
      plugin::field("rackLabel", &Params::rack, "", "Endpoint label with the rack."),
      plugin::field("zoneLabel", &Params::zone, "", "Endpoint label with the zone."),
      plugin::field("regionLabel", &Params::region, "", "Endpoint label with the region."),
  };
  return params;
}

class TopologyExtractor final : public TopologySource {
 public:
  TopologyExtractor(Params p, const plugin::Context&)
      : labels_{std::move(p.hostname), std::move(p.rack), std::move(p.zone), std::move(p.region)} {}

  Proximity between(const fleet::Endpoint& a, const fleet::Endpoint& b) const override {
    size_t level = 0;
    for (; level < labels_.size(); ++level) {
      const auto* mine = a.label(labels_[level]);
      const auto* other = b.label(labels_[level]);
      if (mine && other && !mine->empty() && *mine == *other) break;
    }
    return static_cast<Proximity>(level);
  }

 private:
  const std::array<std::string, 4> labels_;  // by Proximity
};

}  // namespace

const plugin::Descriptor& topology_extractor() {
  static const auto descriptor = plugin::describe<TopologyExtractor>(
      {.type = "topology-extractor",
       .kind = "extractor",
       .summary = "Knows from labels on which host, rack, zone and region endpoints are."},
      table());
  return descriptor;
}

}  // namespace llmd::plugins
