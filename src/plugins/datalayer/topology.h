#pragma once

#include "fleet/endpoint.h"
#include "plugin/plugin.h"

#include <cstdint>

namespace llmd::plugins {

/// How near two endpoints are, the nearest first.
enum class Proximity : uint8_t { kHost, kRack, kZone, kRegion, kNone };

/// Knows where endpoints are: the plugin topology-extractor.
class TopologySource : public virtual plugin::Plugin {
 public:
  virtual Proximity between(const fleet::Endpoint& a, const fleet::Endpoint& b) const = 0;
};

}  // namespace llmd::plugins
