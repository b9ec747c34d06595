#include "fleet/upstream_tls.h"

namespace llmd::fleet {

std::shared_ptr<tls::Target> UpstreamTls::target(const EndpointSpec& spec,
                                                 const std::shared_ptr<tls::Context>& with,
                                                 std::string_view protocol) const {
  const std::string& name = !server_name.empty()        ? server_name
                            : !spec.server_name.empty() ? spec.server_name
                            : !spec.host_name.empty()   ? spec.host_name
                                                        : spec.address;
  return std::make_shared<tls::Target>(with, name, protocol);
}

}  // namespace llmd::fleet
