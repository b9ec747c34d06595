#include "config/document.h"

#include "decode.h"
#include "gates.h"

#include "base/file.h"
#include "base/text.h"

#include <algorithm>
#include <array>

namespace llmd::config {
namespace {

using codec::Node;

constexpr size_t kDocumentBytesMax = 1 << 20;
constexpr std::string_view kDeprecatedVersion = "inference.networking.x-k8s.io/v1alpha1";
constexpr std::array<std::string_view, 3> kVersions = {"llm-d.ai/v1", "llm-d.ai/v1alpha1",
                                                       kDeprecatedVersion};
constexpr std::string_view kKind = "EndpointPickerConfig";

Read ref_name(Ref& ref) {
  return [&ref](const Node& node, const std::string& path) -> Status {
    LLMD_TRY(into(ref.name)(node, path));
    ref.where = node.where();
    if (ref.name.empty()) return error_at(node, path, "must not be empty");
    return {};
  };
}

Status require_ref(const Ref& ref, const Node& node, const std::string& path) {
  if (ref.name.empty()) return error_at(node, path, "pluginRef is missing");
  return {};
}

/// {pluginRef: name}
template <class Slot>
Read ref_object(Slot& slot) {
  return [&slot](const Node& node, const std::string& path) -> Status {
    Ref ref;
    LLMD_TRY(decode(node, path, {{"pluginRef", ref_name(ref)}}));
    LLMD_TRY(require_ref(ref, node, path));
    slot = std::move(ref);
    return {};
  };
}

/// A list of {pluginRef: name}, appended.
Read ref_list(std::vector<Ref>& refs) {
  return each([&refs](const Node& node, const std::string& path) {
    return ref_object(refs.emplace_back())(node, path);
  });
}

template <class Slot>
Read optional_ref(Slot& slot) {
  return [&slot](const Node& node, const std::string& path) -> Status {
    Ref ref;
    LLMD_TRY(ref_name(ref)(node, path));
    slot = std::move(ref);
    return {};
  };
}

Read quantity(std::optional<int64_t>& value) {
  return [&value](const Node& node, const std::string& path) -> Status {
    if (node.type == Node::Type::kMap || node.type == Node::Type::kList ||
        node.type == Node::Type::kBool)
      return error_at(
          node, path,
          "must be a quantity such as \"1Gi\", not a " + std::string(codec::type_name(node.type)));
    auto number = parse_quantity(node.text);
    if (!number) return error_at(node, path, "'" + node.text + "': " + number.error().message);
    value = *number;
    return {};
  };
}

Read duration_from_zero(std::optional<Nanos>& value) {
  return [&value](const Node& node, const std::string& path) -> Status {
    LLMD_TRY(into(value)(node, path));
    if (*value < Nanos(0)) return error_at(node, path, "must not be negative, not " + node.text);
    return {};
  };
}

Status read_plugin(const Node& node, const std::string& path, Document& document) {
  PluginEntry& entry = document.plugins.emplace_back();
  entry.where = node.where();
  const Read keep_parameters = [&](const Node& n, const std::string&) -> Status {
    entry.parameters = n;
    return {};
  };
  LLMD_TRY(decode(
      node, path,
      {{"name", into(entry.name)}, {"type", into(entry.type)}, {"parameters", keep_parameters}}));
  if (entry.type.empty()) return error_at(node, path, "type is missing");
  if (entry.name.empty()) entry.name = entry.type;
  for (size_t i = 0; i + 1 < document.plugins.size(); ++i)
    if (document.plugins[i].name == entry.name)
      return error_at(node, path,
                      "the name '" + entry.name + "' is taken by the plugin at " +
                          document.plugins[i].where + "; give one of them another name");
  return {};
}

Status read_use(const Node& node, const std::string& path, ProfileEntry& profile) {
  auto& use = profile.plugins.emplace_back();
  const Read weight = [&](const Node& n, const std::string& p) -> Status {
    LLMD_TRY(into(use.weight)(n, p));
    if (*use.weight < 0) return error_at(n, p, "must not be negative, not " + n.text);
    return {};
  };
  LLMD_TRY(decode(node, path, {{"pluginRef", ref_name(use.plugin)}, {"weight", weight}}));
  return require_ref(use.plugin, node, path);
}

Status read_profile(const Node& node, const std::string& path, Document& document) {
  ProfileEntry& profile = document.profiles.emplace_back();
  profile.where = node.where();
  const Read use = [&](const Node& n, const std::string& p) { return read_use(n, p, profile); };
  LLMD_TRY(decode(node, path, {{"name", into(profile.name)}, {"plugins", each(use)}}));
  if (profile.name.empty()) return error_at(node, path, "name is missing");
  for (size_t i = 0; i + 1 < document.profiles.size(); ++i)
    if (document.profiles[i].name == profile.name)
      return error_at(node, path,
                      "the name '" + profile.name + "' is taken by the profile at " +
                          document.profiles[i].where);
  return {};
}

Status read_source(const Node& node, const std::string& path, DataLayer& data) {
  auto& source = data.sources.emplace_back();
  LLMD_TRY(decode(
      node, path,
      {{"pluginRef", ref_name(source.plugin)}, {"extractors", ref_list(source.extractors)}}));
  return require_ref(source.plugin, node, path);
}

Status read_data_layer(const Node& node, const std::string& path, DataLayer& data) {
  const Read source = [&](const Node& n, const std::string& p) { return read_source(n, p, data); };
  std::optional<Nanos> interval;
  LLMD_TRY(decode(node, path,
                  {{"injectDefaults", into(data.inject_defaults)},
                   {"sources", each(source)},
                   {"discovery", ref_object(data.discovery)},
                   {"peerDiscovery", ref_object(data.peer_discovery)},
                   {"crossReplicaSyncerPluginRef", optional_ref(data.cross_replica_syncer)},
                   {"crossReplicaSyncInterval", duration_from_zero(interval)}}));
  if (interval) data.cross_replica_sync_interval = *interval;
  return {};
}

Status read_band(const Node& node, const std::string& path, Band& band) {
  return decode(node, path,
                {{"priority", into(band.priority)},
                 {"maxBytes", quantity(band.bytes_max)},
                 {"maxRequests", quantity(band.requests_max)},
                 {"maxTokens", quantity(band.tokens_max)},
                 {"fairnessPolicyRef", optional_ref(band.fairness_policy)},
                 {"orderingPolicyRef", optional_ref(band.ordering_policy)}});
}

Status read_listed_band(const Node& node, const std::string& path, FlowControl& flow) {
  Band band;
  LLMD_TRY(read_band(node, path, band));
  for (const auto& other : flow.bands)
    if (other.priority == band.priority)
      return error_at(node, path, "duplicate priority level " + std::to_string(band.priority));
  flow.bands.push_back(std::move(band));
  return {};
}

Status read_flow_control(const Node& node, const std::string& path, FlowControl& flow) {
  const auto band = [](std::optional<Band>& slot) -> Read {
    return [&slot](const Node& n, const std::string& p) { return read_band(n, p, slot.emplace()); };
  };
  const Read listed = [&](const Node& n, const std::string& p) {
    return read_listed_band(n, p, flow);
  };
  LLMD_TRY(decode(node, path,
                  {{"maxBytes", quantity(flow.bytes_max)},
                   {"maxRequests", quantity(flow.requests_max)},
                   {"maxTokens", quantity(flow.tokens_max)},
                   {"defaultRequestTTL", duration_from_zero(flow.default_request_ttl)},
                   {"noEndpointRequestTTL", duration_from_zero(flow.no_endpoint_request_ttl)},
                   {"defaultPriorityBand", band(flow.default_band)},
                   {"defaultNegativePriorityBand", band(flow.default_negative_band)},
                   {"priorityBands", each(listed)},
                   {"usageLimitPolicyPluginRef", optional_ref(flow.usage_limit_policy)},
                   {"saturationDetector", ref_object(flow.saturation_detector)},
                   {"enableEviction", into(flow.enable_eviction)},
                   {"refuseUnmeetableDeadlines", into(flow.refuse_unmeetable_deadlines)},
                   {"retryAfter", into(flow.retry_after)},
                   {"requestTTLHeader", into(flow.request_ttl_header)}}));
  for (const auto& [name, value] : node.members)
    if (name != "saturationDetector" && !value.is_null()) flow.given.push_back(name);
  return {};
}

/// Fields of former versions, read before it is known whether their successors are set.
struct Deprecated {
  std::optional<Ref> detector;
  std::optional<Ref> parser;
};

void fold(Deprecated old, Document& document) {
  const auto warn = [&](const Ref& ref, std::string_view name, std::string_view successor,
                        bool used) {
    document.warnings.push_back(ref.where + ": " + std::string(name) + " is deprecated" +
                                (used ? "" : " and ignored") + "; use " + std::string(successor));
  };
  if (old.detector) {
    auto& slot = document.flow_control.saturation_detector;
    warn(*old.detector, "saturationDetector", "flowControl.saturationDetector", !slot);
    if (!slot) slot = std::move(old.detector);
  }
  if (old.parser) {
    const bool used = document.parsers.empty();
    warn(*old.parser, "parser", "requestHandler.parsers", used);
    if (used) document.parsers.push_back(std::move(*old.parser));
  }
}

Status check_version(const Node& root, Document& document) {
  const auto text_of = [&](std::string_view name) -> std::string_view {
    const Node* node = root.find(name);
    return node && node->type == Node::Type::kString ? std::string_view(node->text) : "";
  };
  const auto wrong = [&](std::string_view name, std::string_view valid) {
    const Node* node = root.find(name);
    const std::string found = node ? "'" + node->text + "'" : "nothing";
    return error_at(node ? *node : root, std::string(name),
                    "must be " + std::string(valid) + ", not " + found);
  };
  const std::string_view version = text_of("apiVersion");
  if (std::ranges::find(kVersions, version) == kVersions.end())
    return wrong("apiVersion",
                 "llm-d.ai/v1, llm-d.ai/v1alpha1 or inference.networking.x-k8s.io/v1alpha1");
  if (text_of("kind") != kKind) return wrong("kind", kKind);
  if (version == kDeprecatedVersion)
    document.warnings.push_back(root.find("apiVersion")->where() + ": apiVersion " +
                                std::string(version) + " is deprecated; use llm-d.ai/v1");
  return {};
}

}  // namespace

bool Document::gate(std::string_view name) const {
  const auto at = std::ranges::find(gates, name, &std::pair<std::string, bool>::first);
  return at != gates.end() && at->second;
}

Result<Document> parse_document(std::string_view text, std::string_view file) {
  LLMD_TRY_ASSIGN(const Node root, codec::parse_yaml(text, file, kDocumentBytesMax));
  Document document;
  document.file = file;
  document.gates = default_gates();
  if (root.type != Node::Type::kMap)
    return error_at(root, "", "must be a map with apiVersion and kind");
  LLMD_TRY(check_version(root, document));

  std::string ignored;
  Deprecated old;
  const Read gate = [&](const Node& node, const std::string& path) -> Status {
    std::string entry;
    LLMD_TRY(into(entry)(node, path));
    auto status = apply_gate(entry, document.gates);
    return status ? status : Status(error_at(node, path, status.error().message));
  };
  const Read plugin = [&](const Node& n, const std::string& p) {
    return read_plugin(n, p, document);
  };
  const Read profile = [&](const Node& n, const std::string& p) {
    return read_profile(n, p, document);
  };
  const Read data = [&](const Node& n, const std::string& p) {
    return read_data_layer(n, p, document.data_layer);
  };
  const Read flow = [&](const Node& n, const std::string& p) {
    return read_flow_control(n, p, document.flow_control);
  };
  const Read handler = [&](const Node& n, const std::string& p) {
    return decode(n, p, {{"parsers", ref_list(document.parsers)}});
  };
  LLMD_TRY(decode(root, "",
                  {{"apiVersion", into(ignored)},
                   {"kind", into(ignored)},
                   {"featureGates", each(gate)},
                   {"plugins", each(plugin)},
                   {"schedulingProfiles", each(profile)},
                   {"dataLayer", data},
                   {"flowControl", flow},
                   {"requestHandler", handler},
                   {"saturationDetector", ref_object(old.detector)},
                   {"parser", ref_object(old.parser)}}));
  fold(std::move(old), document);
  return document;
}

std::string_view default_document() {
  return R"(apiVersion: llm-d.ai/v1
kind: EndpointPickerConfig
featureGates: []
plugins:
- type: queue-scorer
- type: kv-cache-utilization-scorer
- type: prefix-cache-scorer
- type: metrics-data-source
- type: core-metrics-extractor
schedulingProfiles:
- name: default
  plugins:
  - {pluginRef: queue-scorer, weight: 2}
  - {pluginRef: kv-cache-utilization-scorer, weight: 2}
  - {pluginRef: prefix-cache-scorer, weight: 3}
dataLayer:
  sources:
  - pluginRef: metrics-data-source
    extractors:
    - pluginRef: core-metrics-extractor
)";
}

Result<std::string> read_document(const std::string& path) {
  auto text = read_file(path, kDocumentBytesMax);
  if (!text) return fail(std::move(text).error().in(path));
  return text;
}

}  // namespace llmd::config
