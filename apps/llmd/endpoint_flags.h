#pragma once

#include "base/result.h"
#include "fleet/discovery.h"
#include "metric/registry.h"

#include <memory>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace llmd {

/// Where a command finds model servers.
struct EndpointFlags {
  std::vector<std::string> endpoints;
  std::string endpoints_file;

  bool given() const { return !endpoints.empty() || !endpoints_file.empty(); }
};

void add_endpoint_flags(CLI::App& app, EndpointFlags& flags);

/// Errors name the flag. Requires: `metrics` outlives the discovery.
Result<std::unique_ptr<fleet::Discovery>> discovery_of(const EndpointFlags& flags,
                                                       metric::Registry& metrics);

}  // namespace llmd
