#pragma once

#include "fleet/endpoint.h"
#include "tls/context.h"

#include <memory>
#include <string>
#include <string_view>

namespace llmd::fleet {

/// How endpoints with the scheme https are reached. Copyable. Threading: immutable.
struct UpstreamTls {
  std::shared_ptr<tls::Context> context;
  std::string server_name;  // that every certificate must be for; "": each endpoint's own
  bool chosen = false;      // an operator has said whom to trust

  /// Whom to find at an endpoint, for one loop. Its own name is, of those that it has, the one
  /// given for its certificate, its host name, its address.
  std::shared_ptr<tls::Target> target(const EndpointSpec& spec,
                                      std::string_view protocol = tls::kHttp1) const {
    return target(spec, context, protocol);
  }
  std::shared_ptr<tls::Target> target(const EndpointSpec& spec,
                                      const std::shared_ptr<tls::Context>& with,
                                      std::string_view protocol = tls::kHttp1) const;
};

}  // namespace llmd::fleet
