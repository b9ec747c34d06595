#pragma once

#include "fleet/address.h"
#include "fleet/endpoint.h"
#include "http/client.h"

#include <optional>
#include <string>

namespace llmd::fetch {

/// A server that is asked by name, by address or at a unix socket. The name is looked up when the
/// server is first needed, and again after it could not be reached, at most every kLookupInterval.
/// Threading: one loop, which a lookup may block.
class Server {
 public:
  static constexpr Nanos kLookupInterval = std::chrono::seconds(5);

  /// `context` is for https; null: the server cannot be reached that way.
  Server(fleet::EndpointSpec spec, const fleet::Resolver& resolver,
         std::shared_ptr<tls::Context> context)
      : spec_(std::move(spec)), resolver_(&resolver), context_(std::move(context)) {}
  explicit Server(std::string unix_path);

  /// Null while the name means nothing.
  const http::Destination* destination(TimePoint now);
  void could_not_be_reached() { reached_ = false; }
  /// "host:port", or the path of the socket.
  const std::string& name() const { return spec_.name; }
  /// What requests call it.
  std::string_view authority() const {
    return destination_ && !destination_->unix_path.empty() ? "localhost"
                                                            : std::string_view(spec_.name);
  }

 private:
  const fleet::EndpointSpec spec_;
  const fleet::Resolver* const resolver_ = nullptr;
  const std::shared_ptr<tls::Context> context_;
  std::optional<http::Destination> destination_;
  bool reached_ = true;
  TimePoint next_lookup_{};
  uint64_t generation_ = 0;
};

}  // namespace llmd::fetch
