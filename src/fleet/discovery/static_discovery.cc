#include "fleet/static_discovery.h"

#include "base/log.h"
#include "base/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace llmd::fleet {
namespace {

/// What is wrong with a part; parse_endpoint_flag() puts the whole text in front.
std::unexpected<Error> bad(std::string why) {
  return fail(Code::kBadRequest, std::move(why));
}

Status read_scheme(std::string_view& rest, EndpointSpec& spec) {
  const size_t end = rest.find("://");
  if (end == rest.npos) return {};
  spec.scheme = to_lower(rest.substr(0, end));
  if (spec.scheme != "http" && spec.scheme != "https") {
    constexpr std::string_view kSchemes[] = {"http", "https"};
    return bad(fmt::format("scheme must be http or https, not '{}'{}", spec.scheme,
                           suggestion(spec.scheme, kSchemes)));
  }
  rest.remove_prefix(end + 3);
  return {};
}

Status read_host(std::string_view host, EndpointSpec& spec) {
  if (host.empty()) return bad("the host is missing");
  if (is_ipv4(host)) {
    spec.address = host;
  } else if (is_host_name(host)) {
    spec.host_name = to_lower(host);
  } else if (canonical_ipv6(host)) {
    return bad("an IPv6 address needs brackets: [" + std::string(host) + "]");
  } else {
    return bad(fmt::format("'{}' is neither an IP address nor a host name", host));
  }
  return {};
}

/// `HOST[:PORT]`
Status read_authority(std::string_view text, EndpointSpec& spec) {
  std::string_view port;
  bool has_port = false;
  if (text.starts_with('[')) {
    const size_t close = text.find(']');
    if (close == text.npos) return bad("']' is missing after the IPv6 address");
    const auto address = canonical_ipv6(text.substr(1, close - 1));
    if (!address) return bad(fmt::format("'{}' is no IPv6 address", text.substr(1, close - 1)));
    spec.address = *address;
    const auto rest = text.substr(close + 1);
    has_port = !rest.empty();
    if (has_port && rest.front() != ':') return bad(fmt::format("unexpected '{}' after ']'", rest));
    if (has_port) port = rest.substr(1);
  } else {
    const size_t colon = text.rfind(':');
    has_port = colon != text.npos && text.find(':') == colon;
    if (has_port) port = text.substr(colon + 1);
    LLMD_TRY(read_host(has_port ? text.substr(0, colon) : text, spec));
  }
  spec.port = spec.scheme == "https" ? 443 : 80;
  if (has_port) {
    const auto number = parse_port(port);
    if (!number) return bad(fmt::format("port must be a number from 1 to 65535, not '{}'", port));
    spec.port = *number;
  }
  return {};
}

Status read_label(std::string_view text, EndpointSpec& spec) {
  const size_t equals = text.find('=');
  if (equals == text.npos) return bad(fmt::format("label '{}' needs the form name=value", text));
  const std::string key(trim(text.substr(0, equals)));
  if (key.empty()) return bad(fmt::format("label '{}' has no name", text));
  for (const auto& [name, value] : spec.labels)
    if (name == key) return bad(fmt::format("label '{}' is given twice", key));
  spec.labels.emplace_back(key, trim(text.substr(equals + 1)));
  return {};
}

Result<EndpointSpec> parse(std::string_view text) {
  EndpointSpec spec;
  const size_t url_end = std::min(text.find(';'), text.size());
  std::string_view url = trim(text.substr(0, url_end));
  LLMD_TRY(read_scheme(url, spec));
  if (url.ends_with('/')) url.remove_suffix(1);
  if (url.find_first_of("/?#") != url.npos)
    return bad("a path, query or fragment is not supported");
  if (url.find('@') != url.npos) return bad("user names and passwords are not supported");
  LLMD_TRY(read_authority(url, spec));
  for (size_t at = url_end; at < text.size();) {
    const size_t end = std::min(text.find(';', at + 1), text.size());
    LLMD_TRY(read_label(trim(text.substr(at + 1, end - at - 1)), spec));
    at = end;
  }
  std::ranges::sort(spec.labels);
  const std::string& host = spec.host_name.empty() ? spec.address : spec.host_name;
  spec.name = host.find(':') == host.npos ? fmt::format("{}:{}", host, spec.port)
                                          : fmt::format("[{}]:{}", host, spec.port);
  return spec;
}

}  // namespace

Result<EndpointSpec> parse_endpoint_flag(std::string_view text) {
  auto spec = parse(text);
  if (!spec) return fail(std::move(spec).error().in(fmt::format("endpoint '{}'", text)));
  return spec;
}

Result<std::vector<EndpointSpec>> parse_endpoint_flags(const std::vector<std::string>& texts) {
  std::vector<EndpointSpec> specs;
  std::set<std::string> names;
  for (const auto& text : texts) {
    LLMD_TRY_ASSIGN(auto spec, parse_endpoint_flag(text));
    if (!names.insert(spec.name).second)
      return fail(Code::kBadRequest,
                  fmt::format("endpoint '{}': {} is given twice", text, spec.name));
    specs.push_back(std::move(spec));
  }
  return specs;
}

StaticDiscovery::StaticDiscovery(std::vector<EndpointSpec> specs, Resolver resolver,
                                 const Clock& clock)
    : specs_(std::move(specs)),
      resolver_(std::move(resolver)),
      clock_(clock),
      has_names_(std::ranges::any_of(specs_, [](const auto& s) { return !s.host_name.empty(); })) {}

Status StaticDiscovery::start(Fleet& fleet) {
  fleet_ = &fleet;
  resolve();
  return {};
}

void StaticDiscovery::tick() {
  if (has_names_ && clock_.now() >= next_) resolve();
}

void StaticDiscovery::resolve() {
  bool all = true;
  std::vector<EndpointSpec> present;
  for (auto& spec : specs_) {
    if (!spec.host_name.empty()) all &= resolve_one(spec);
    if (!spec.address.empty()) present.push_back(spec);
  }
  fleet_->set(std::move(present));
  next_ = clock_.now() + (all ? kResolveInterval : kRetryInterval);
}

bool StaticDiscovery::resolve_one(EndpointSpec& spec) {
  auto addresses = resolver_(spec.host_name);
  if (addresses && addresses->empty())
    addresses =
        fail(Code::kServiceUnavailable, fmt::format("host '{}' has no address", spec.host_name));
  if (!addresses) {
    log::error(
        "cannot resolve an endpoint's host name",
        {{"endpoint", spec.name}, {"error", addresses.error().message}, {"kept", spec.address}});
    return false;
  }
  if (std::ranges::find(*addresses, spec.address) == addresses->end()) {
    log::info("endpoint resolved", {{"endpoint", spec.name}, {"address", addresses->front()}});
    spec.address = std::move(addresses->front());
  }
  return true;
}

}  // namespace llmd::fleet
