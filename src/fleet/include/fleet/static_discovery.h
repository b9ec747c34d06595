#pragma once

#include "base/clock.h"
#include "base/result.h"
#include "fleet/address.h"
#include "fleet/discovery.h"

#include <string>
#include <string_view>
#include <vector>

namespace llmd::fleet {

/// Reads `[http://|https://]HOST[:PORT][/][;LABEL=VALUE...]`. HOST is an IPv4 literal, an IPv6
/// literal in brackets or a host name; the port defaults to 80 or 443 by the scheme. The endpoint
/// is named after host and port as given. For a host name `host_name` is set and `address` is empty
/// until it is resolved. Errors name the text and what is wrong with it.
Result<EndpointSpec> parse_endpoint_flag(std::string_view text);

/// The same for each text; an endpoint given twice is an error.
Result<std::vector<EndpointSpec>> parse_endpoint_flags(const std::vector<std::string>& texts);

/// A fixed list of endpoints. Host names are resolved at start and again every kResolveInterval; an
/// endpoint keeps its address as long as its name still has it. A name that cannot be resolved
/// keeps its last address, or stays out of the fleet while it never had one, and is tried again
/// after kRetryInterval.
class StaticDiscovery final : public Discovery {
 public:
  static constexpr Nanos kResolveInterval = std::chrono::seconds(30);
  static constexpr Nanos kRetryInterval = std::chrono::seconds(5);

  /// Requires: `clock` outlives this object.
  StaticDiscovery(std::vector<EndpointSpec> specs, Resolver resolver, const Clock& clock);

  Status start(Fleet& fleet) override;
  void tick() override;
  Nanos tick_interval() const override { return std::chrono::seconds(1); }

 private:
  void resolve();
  bool resolve_one(EndpointSpec& spec);

  std::vector<EndpointSpec> specs_;
  const Resolver resolver_;
  const Clock& clock_;
  const bool has_names_;
  Fleet* fleet_ = nullptr;
  TimePoint next_{};
};

}  // namespace llmd::fleet
