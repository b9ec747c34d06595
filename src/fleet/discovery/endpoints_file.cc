#include "fleet/endpoints_file.h"

#include "base/file.h"
#include "base/text.h"
#include "codec/node.h"
#include "fleet/address.h"

#include <fmt/format.h>

#include <algorithm>

namespace llmd::fleet {
namespace {

using codec::Node;

constexpr std::string_view kTopKeys[] = {"endpoints"};
constexpr std::string_view kEntryKeys[] = {"name",   "namespace", "address",   "port",
                                           "labels", "scheme",    "serverName"};
constexpr std::string_view kSchemes[] = {"http", "https"};

std::unexpected<Error> bad_type(const Node& node, std::string_view key, std::string_view wanted) {
  return fail(Code::kBadRequest, fmt::format("{}: '{}' must be a {}, found {}", node.where(), key,
                                             wanted, codec::type_name(node.type)));
}

void warn_unknown_keys(const Node& map, std::span<const std::string_view> known,
                       EndpointsFile& out) {
  for (const auto& [key, value] : map.members)
    if (std::ranges::find(known, key) == known.end())
      out.warnings.push_back(fmt::format("{}: unknown key '{}' is ignored{}", value.where(), key,
                                         suggestion(key, known)));
}

/// The string member `key`; an absent or null one is empty.
Result<std::string> read_string(const Node& map, std::string_view key) {
  const Node* node = map.find(key);
  if (node == nullptr || node->is_null()) return std::string();
  if (node->type == Node::Type::kString) return node->text;
  if (key == "port" && node->type == Node::Type::kInt)
    return fail(Code::kBadRequest,
                fmt::format("{}: 'port' must be a string: \"{}\"", node->where(), node->text));
  return bad_type(*node, key, "string");
}

Result<std::vector<std::pair<std::string, std::string>>> read_labels(const Node& entry) {
  std::vector<std::pair<std::string, std::string>> labels;
  const Node* node = entry.find("labels");
  if (node == nullptr || node->is_null()) return labels;
  if (node->type != Node::Type::kMap) return bad_type(*node, "labels", "map of strings");
  for (const auto& [key, value] : node->members) {
    if (value.type != Node::Type::kString) return bad_type(value, "labels." + key, "string");
    labels.emplace_back(key, value.text);
  }
  std::ranges::sort(labels);
  return labels;
}

/// What is wrong with an entry's values, or "".
std::string fault_of(const EndpointSpec& spec, std::string_view port) {
  if (spec.name.empty()) return "'name' is missing";
  if (spec.address.empty()) return "'address' is missing";
  if (!is_ipv4(spec.address))
    return fmt::format("'address' must be an IPv4 address, not '{}'", spec.address);
  if (std::ranges::find(kSchemes, spec.scheme) == std::end(kSchemes))
    return fmt::format("'scheme' must be http or https, not '{}'{}", spec.scheme,
                       suggestion(spec.scheme, kSchemes));
  if (const auto& name = spec.server_name;
      !name.empty() && !is_ipv4(name) && !canonical_ipv6(name) && !is_host_name(name))
    return fmt::format("'serverName' must be a host name or an IP address, not '{}'", name);
  if (port.empty()) return "'port' is missing";
  if (spec.port == 0) return fmt::format("'port' must be \"1\" to \"65535\", not \"{}\"", port);
  return {};
}

Status read_entry(const Node& entry, EndpointsFile& out) {
  if (entry.type != Node::Type::kMap) return bad_type(entry, "endpoints[]", "map");
  warn_unknown_keys(entry, kEntryKeys, out);
  EndpointSpec spec;
  LLMD_TRY_ASSIGN(spec.name, read_string(entry, "name"));
  LLMD_TRY_ASSIGN(std::string ns, read_string(entry, "namespace"));
  LLMD_TRY_ASSIGN(spec.address, read_string(entry, "address"));
  LLMD_TRY_ASSIGN(const std::string port, read_string(entry, "port"));
  LLMD_TRY_ASSIGN(spec.labels, read_labels(entry));
  LLMD_TRY_ASSIGN(std::string scheme, read_string(entry, "scheme"));
  LLMD_TRY_ASSIGN(spec.server_name, read_string(entry, "serverName"));
  if (!scheme.empty()) spec.scheme = std::move(scheme);
  if (!ns.empty()) spec.ns = std::move(ns);
  spec.port = parse_port(port).value_or(0);
  if (auto fault = fault_of(spec, port); !fault.empty()) {
    out.bad.push_back({spec.name.empty() ? "" : spec.ns + "/" + spec.name,
                       fmt::format("{}: {}", entry.where(), fault)});
    return {};
  }
  out.endpoints.push_back(std::move(spec));
  return {};
}

}  // namespace

Result<EndpointsFile> parse_endpoints_file(std::string_view text, std::string_view file) {
  LLMD_TRY_ASSIGN(const Node root, codec::parse_yaml(text, file, kEndpointsFileBytesMax));
  if (root.type != Node::Type::kMap)
    return bad_type(root, "the document", "map with the key 'endpoints'");
  EndpointsFile out;
  warn_unknown_keys(root, kTopKeys, out);
  const Node* list = root.find("endpoints");
  if (list == nullptr)
    return fail(Code::kBadRequest, fmt::format("{}: 'endpoints' is missing", root.where()));
  if (list->type != Node::Type::kList) return bad_type(*list, "endpoints", "list");
  for (const Node& entry : list->items) LLMD_TRY(read_entry(entry, out));
  return out;
}

Result<std::string> read_endpoints_file(const std::string& path) {
  auto text = read_file(path, kEndpointsFileBytesMax);
  if (!text) return fail(std::move(text).error().in(fmt::format("endpoints file '{}'", path)));
  return text;
}

}  // namespace llmd::fleet
