#include "fetch/server.h"

#include <utility>

namespace llmd::fetch {
namespace {

fleet::EndpointSpec named(std::string name) {
  fleet::EndpointSpec spec;
  spec.name = std::move(name);
  return spec;
}

}  // namespace

Server::Server(std::string unix_path) : spec_(named(std::move(unix_path))) {
  destination_.emplace().unix_path = spec_.name;
}

const http::Destination* Server::destination(TimePoint now) {
  const bool known = destination_ && (reached_ || spec_.host_name.empty());
  if (known || now < next_lookup_) return destination_ ? &*destination_ : nullptr;
  next_lookup_ = now + kLookupInterval;
  if (spec_.scheme == "https" && !context_) return nullptr;
  std::string address = spec_.address;
  if (!spec_.host_name.empty()) {
    auto found = (*resolver_)(spec_.host_name);
    if (!found || found->empty()) return destination_ ? &*destination_ : nullptr;
    address = found->front();
  }
  const auto parsed = io::SocketAddress::parse(address, spec_.port);
  if (!parsed) return nullptr;
  destination_ = {*parsed, ++generation_, nullptr};
  if (spec_.scheme == "https")
    destination_->tls = std::make_shared<tls::Target>(
        context_, spec_.host_name.empty() ? spec_.address : spec_.host_name);
  reached_ = true;
  return &*destination_;
}

}  // namespace llmd::fetch
