#include "endpoint_flags.h"

#include "fleet/address.h"
#include "fleet/file_discovery.h"
#include "fleet/static_discovery.h"

#include <CLI/CLI.hpp>

#include <utility>

namespace llmd {

void add_endpoint_flags(CLI::App& app, EndpointFlags& flags) {
  app.add_option("--endpoint", flags.endpoints, "model server: URL[;label=value…], repeatable")
      ->take_all()
      ->allow_extra_args(false);
  app.add_option("--endpoints-file", flags.endpoints_file, "file of endpoints, watched");
}

Result<std::unique_ptr<fleet::Discovery>> discovery_of(const EndpointFlags& flags,
                                                       metric::Registry& metrics) {
  if (!flags.given())
    return fail(Code::kBadRequest, "no endpoints: give --endpoint or --endpoints-file");
  if (!flags.endpoints.empty() && !flags.endpoints_file.empty())
    return fail(Code::kBadRequest, "--endpoint and --endpoints-file exclude each other");
  if (!flags.endpoints_file.empty())
    return std::make_unique<fleet::FileDiscovery>(
        fleet::FileDiscovery::Options{flags.endpoints_file, true}, real_clock(), metrics);
  LLMD_TRY_ASSIGN(auto specs, fleet::parse_endpoint_flags(flags.endpoints));
  return std::make_unique<fleet::StaticDiscovery>(std::move(specs), fleet::system_resolver(),
                                                  real_clock());
}

}  // namespace llmd
