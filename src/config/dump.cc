#include "config/dump.h"

#include "base/text.h"
#include "plugin/param_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

namespace llmd::config {
namespace {

using schedule::Pipeline;
using Out = std::back_insert_iterator<std::string>;

std::string names(const auto& steps, std::string_view separator = ", ") {
  std::string all;
  for (const auto& step : steps)
    all += (all.empty() ? "" : std::string(separator)) + step.plugin->name();
  return all.empty() ? "-" : all;
}

std::string limit_text(std::optional<int64_t> limit) {
  return limit.value_or(0) == 0 ? "any" : std::to_string(*limit);
}

void print_band(Out out, std::string_view name, const Band& band) {
  fmt::format_to(out, "  band {:<8}{}, {}; {} requests, {} bytes, {} tokens\n", name,
                 band.fairness_policy->name, band.ordering_policy->name,
                 limit_text(band.requests_max), limit_text(band.bytes_max),
                 limit_text(band.tokens_max));
}

void print_flow_control(Out out, const FlowControl& flow) {
  fmt::format_to(out, "flow control\n");
  fmt::format_to(out, "  waits        {}; without endpoints {}\n",
                 format_duration(*flow.default_request_ttl),
                 format_duration(*flow.no_endpoint_request_ttl));
  fmt::format_to(out, "  all bands    {} requests, {} bytes, {} tokens\n",
                 limit_text(flow.requests_max), limit_text(flow.bytes_max),
                 limit_text(flow.tokens_max));
  fmt::format_to(out, "  usage limit  {}\n", flow.usage_limit_policy->name);
  for (const auto& band : flow.bands) print_band(out, std::to_string(band.priority), band);
  print_band(out, "other", *flow.default_band);
  if (flow.default_negative_band) print_band(out, "< 0", *flow.default_negative_band);
}

std::string names_of_refs(const std::vector<Ref>& refs) {
  std::string all;
  for (const auto& ref : refs) all += (all.empty() ? "" : ", ") + ref.name;
  return all.empty() ? "-" : all;
}

void print_plugins(Out out, const Pipeline& pipeline) {
  fmt::format_to(out, "plugins\n");
  for (const auto& plugin : pipeline.resolved) {
    const std::string type = plugin.name == plugin.type ? "" : " (" + plugin.type + ")";
    fmt::format_to(out, "  {}{}  [{}]\n", plugin.name, type, plugin.origin);
    if (plugin.parameters != "{}") fmt::format_to(out, "      {}\n", plugin.parameters);
  }
}

void print_profiles(Out out, const Pipeline& pipeline) {
  fmt::format_to(out, "profiles, run by {}\n", pipeline.handler.plugin->name());
  for (const auto& profile : pipeline.profiles) {
    std::string scorers;
    for (const auto& scorer : profile.scorers)
      scorers += fmt::format("{}{} x {}", scorers.empty() ? "" : ", ", scorer.plugin->name(),
                             plugin::values::to_json(scorer.weight));
    fmt::format_to(out, "  {}\n    filters  {}\n    scorers  {}\n    picker   {}\n", profile.name,
                   names(profile.filters), scorers.empty() ? "-" : scorers,
                   profile.picker.plugin->name());
  }
}

/// `text` as a YAML scalar that reads back as a string.
std::string scalar(const std::string& text) {
  return plugin::values::to_json(text);
}

void yaml_profiles(Out out, const Document& document) {
  fmt::format_to(out, "schedulingProfiles:\n");
  for (const auto& profile : document.profiles) {
    fmt::format_to(out, "- name: {}\n  plugins:\n", scalar(profile.name));
    for (const auto& use : profile.plugins)
      if (use.weight)
        fmt::format_to(out, "  - {{pluginRef: {}, weight: {}}}\n", scalar(use.plugin.name),
                       plugin::values::to_json(*use.weight));
      else
        fmt::format_to(out, "  - {{pluginRef: {}}}\n", scalar(use.plugin.name));
  }
}

/// The settings of a band as members of a YAML flow map.
std::string yaml_band(const Band& band) {
  std::string text =
      fmt::format("maxBytes: {}, maxRequests: {}", *band.bytes_max, *band.requests_max);
  if (band.tokens_max) text += fmt::format(", maxTokens: {}", *band.tokens_max);
  return text + fmt::format(", fairnessPolicyRef: {}, orderingPolicyRef: {}",
                            scalar(band.fairness_policy->name), scalar(band.ordering_policy->name));
}

void yaml_flow_control(Out out, const FlowControl& flow) {
  for (const auto& [name, limit] :
       {std::pair("maxBytes", flow.bytes_max), std::pair("maxRequests", flow.requests_max),
        std::pair("maxTokens", flow.tokens_max)})
    if (limit) fmt::format_to(out, "  {}: {}\n", name, *limit);
  fmt::format_to(out, "  defaultRequestTTL: {}\n  noEndpointRequestTTL: {}\n",
                 format_duration(*flow.default_request_ttl),
                 format_duration(*flow.no_endpoint_request_ttl));
  fmt::format_to(out, "  usageLimitPolicyPluginRef: {}\n", scalar(flow.usage_limit_policy->name));
  for (const auto& [name, on] :
       {std::pair("enableEviction", flow.enable_eviction),
        std::pair("refuseUnmeetableDeadlines", flow.refuse_unmeetable_deadlines),
        std::pair("retryAfter", flow.retry_after)})
    if (on) fmt::format_to(out, "  {}: true\n", name);
  if (!flow.request_ttl_header.empty())
    fmt::format_to(out, "  requestTTLHeader: {}\n", scalar(flow.request_ttl_header));
  fmt::format_to(out, "  defaultPriorityBand: {{{}}}\n", yaml_band(*flow.default_band));
  if (flow.default_negative_band)
    fmt::format_to(out, "  defaultNegativePriorityBand: {{{}}}\n",
                   yaml_band(*flow.default_negative_band));
  fmt::format_to(out, "  priorityBands:\n");
  for (const auto& band : flow.bands)
    fmt::format_to(out, "  - {{priority: {}, {}}}\n", band.priority, yaml_band(band));
}

void yaml_data_layer(Out out, const DataLayer& data) {
  fmt::format_to(out, "dataLayer:\n  injectDefaults: false\n");
  if (data.discovery)
    fmt::format_to(out, "  discovery: {{pluginRef: {}}}\n", scalar(data.discovery->name));
  if (data.sources.empty()) return;
  fmt::format_to(out, "  sources:\n");
  for (const auto& source : data.sources) {
    fmt::format_to(out, "  - pluginRef: {}\n    extractors:\n", scalar(source.plugin.name));
    for (const auto& extractor : source.extractors)
      fmt::format_to(out, "    - pluginRef: {}\n", scalar(extractor.name));
  }
}

}  // namespace

std::string to_text(const Loaded& loaded) {
  const Pipeline& pipeline = *loaded.pipeline;
  std::string text;
  const Out out = std::back_inserter(text);
  fmt::format_to(out, "configuration {}\ngates\n", loaded.document.file);
  for (const auto& [name, on] : pipeline.gates)
    fmt::format_to(out, "  {}: {}\n", name, on ? "on" : "off");
  print_plugins(out, pipeline);
  print_profiles(out, pipeline);
  fmt::format_to(out, "request\n");
  fmt::format_to(out, "  parsers      {}\n", names_of_refs(loaded.document.parsers));
  fmt::format_to(out, "  detector     {}\n", pipeline.detector->name());
  fmt::format_to(out, "  screeners    {}\n", names(pipeline.screeners));
  fmt::format_to(out, "  producers    {}\n", names(pipeline.producers, " -> "));
  fmt::format_to(out, "  admitters    {}\n", names(pipeline.admitters));
  fmt::format_to(out, "  pre-request  {}\n", names(pipeline.pre_request));
  fmt::format_to(out, "  response     {}\n", names(pipeline.response));
  if (loaded.document.gate("flowControl")) print_flow_control(out, loaded.document.flow_control);
  fmt::format_to(out, "data\n");
  fmt::format_to(out, "  discovery    {}\n", loaded.discovery ? loaded.discovery->name() : "-");
  for (const auto& source : loaded.document.data_layer.sources)
    fmt::format_to(out, "  source       {} -> {}\n", source.plugin.name,
                   names_of_refs(source.extractors));
  fmt::format_to(out, "warnings\n");
  for (const auto& warning : pipeline.warnings) fmt::format_to(out, "  {}\n", warning);
  if (pipeline.warnings.empty()) fmt::format_to(out, "  -\n");
  return text;
}

std::string to_yaml(const Loaded& loaded) {
  const Pipeline& pipeline = *loaded.pipeline;
  std::string text;
  const Out out = std::back_inserter(text);
  for (const auto& warning : pipeline.warnings) fmt::format_to(out, "# warning: {}\n", warning);
  fmt::format_to(out, "apiVersion: llm-d.ai/v1\nkind: EndpointPickerConfig\nfeatureGates:\n");
  for (const auto& [name, on] : pipeline.gates) fmt::format_to(out, "- {}={}\n", name, on);
  fmt::format_to(out, "plugins:\n");
  for (const auto& plugin : pipeline.resolved) {
    fmt::format_to(out, "- name: {}  # {}\n  type: {}\n", scalar(plugin.name), plugin.origin,
                   scalar(plugin.type));
    if (plugin.parameters != "{}") fmt::format_to(out, "  parameters: {}\n", plugin.parameters);
  }
  yaml_profiles(out, loaded.document);
  fmt::format_to(out, "requestHandler:\n  parsers:\n");
  for (const auto& ref : loaded.document.parsers)
    fmt::format_to(out, "  - pluginRef: {}\n", scalar(ref.name));
  fmt::format_to(out, "flowControl:\n  saturationDetector: {{pluginRef: {}}}\n",
                 scalar(pipeline.detector->name()));
  if (loaded.document.gate("flowControl")) yaml_flow_control(out, loaded.document.flow_control);
  yaml_data_layer(out, loaded.document.data_layer);
  fmt::format_to(out, "# producers in order: {}\n", names(pipeline.producers, " -> "));
  return text;
}

}  // namespace llmd::config
