#include "defaults.h"

#include "flow/settings.h"

#include <algorithm>

namespace llmd::config {
namespace {

constexpr std::string_view kHandler = "single-profile-handler";
constexpr std::string_view kPicker = "max-score-picker";
constexpr std::string_view kDetector = "utilization-detector";
constexpr std::string_view kOrdering = "fcfs-ordering-policy";
constexpr std::string_view kFairness = "global-strict-fairness-policy";
constexpr std::string_view kUsageLimit = "static-usage-limit-policy";
constexpr std::string_view kSource = "metrics-data-source";
constexpr std::string_view kExtractor = "core-metrics-extractor";
/// Of these, the ones that the registry has.
constexpr std::string_view kParsers[] = {"openai-parser", "anthropic-parser", "vllmhttp-parser",
                                         "passthrough-parser"};

bool schedules(const Instance& instance) {
  return instance.is<schedule::Filter>() || instance.is<schedule::Scorer>() ||
         instance.is<schedule::Picker>();
}

ProfileEntry profile_of_everything(Instances& instances) {
  ProfileEntry profile{.name = "default", .plugins = {}, .where = {}};
  for (const auto& instance : instances)
    if (schedules(instance))
      profile.plugins.push_back({.plugin = {instance.name(), instance.where}, .weight = {}});
  return profile;
}

/// The picker of profiles without one: max-score-picker, else the first declared.
Result<Instance*> shared_picker(Instances& instances) {
  for (auto& instance : instances)
    if (instance.plugin->type() == kPicker && instance.is<schedule::Picker>()) return &instance;
  if (Instance* any = instances.first<schedule::Picker>()) return any;
  return instances.add(kPicker, "default");
}

Status complete_profile(ProfileEntry& profile, Instances& instances) {
  bool has_picker = false;
  for (auto& use : profile.plugins) {
    const Instance* instance = instances.find(use.plugin.name);
    if (!instance) continue;  // reported when the profile is built
    has_picker |= instance->is<schedule::Picker>();
    if (instance->is<schedule::Scorer>() && !use.weight) use.weight = 1.0;
  }
  if (has_picker) return {};
  LLMD_TRY_ASSIGN(const Instance* picker, shared_picker(instances));
  profile.plugins.push_back({.plugin = {picker->name(), profile.where}, .weight = {}});
  return {};
}

Status add_scheduling(Document& document, Instances& instances) {
  if (document.profiles.empty()) document.profiles.push_back(profile_of_everything(instances));
  if (document.profiles.size() == 1 && !instances.first<schedule::ProfileHandler>())
    LLMD_TRY(instances.add(kHandler, "default"));
  for (auto& profile : document.profiles) LLMD_TRY(complete_profile(profile, instances));
  return {};
}

Status add_parsers(Document& document, Instances& instances) {
  if (document.parsers.empty())
    for (const auto type : kParsers)
      if (instances.knows(type)) document.parsers.push_back({std::string(type), {}});
  for (const auto& ref : document.parsers) {
    if (instances.find(ref.name)) continue;
    if (auto made = instances.ensure(ref.name); !made)
      return fail(std::move(made).error().in(ref.where.empty() ? "default parser" : ref.where));
  }
  return {};
}

Status add_detector(Document& document, Instances& instances) {
  auto& ref = document.flow_control.saturation_detector;
  if (!ref) ref = Ref{std::string(kDetector), {}};
  if (ref->name == kDetector) LLMD_TRY(instances.ensure(kDetector));
  return {};
}

/// `ref`, or `name`, whose plugin is made if it is not declared.
Status refer_by_default(std::optional<Ref>& ref, std::string_view name, Instances& instances) {
  if (!ref) ref = Ref{std::string(name), {}};
  if (ref->name == name) LLMD_TRY(instances.ensure(name));
  return {};
}

Status complete_band(Band& band, Instances& instances) {
  // Unlike for all bands together, 0 is no absence of a limit.
  if (band.bytes_max.value_or(0) == 0) band.bytes_max = flow::Settings::kBandBytes;
  if (band.requests_max.value_or(0) == 0) band.requests_max = flow::Settings::kBandRequests;
  LLMD_TRY(refer_by_default(band.fairness_policy, kFairness, instances));
  return refer_by_default(band.ordering_policy, kOrdering, instances);
}

Status add_flow_control(Document& document, Instances& instances) {
  if (!document.gate("flowControl")) return {};
  FlowControl& flow = document.flow_control;
  if (!flow.no_endpoint_request_ttl)
    flow.no_endpoint_request_ttl = flow.default_request_ttl.value_or(flow::Settings::kDefaultTtl);
  if (!flow.default_request_ttl) flow.default_request_ttl = flow::Settings::kDefaultTtl;
  LLMD_TRY(refer_by_default(flow.usage_limit_policy, kUsageLimit, instances));
  if (!flow.default_band) flow.default_band.emplace();
  LLMD_TRY(complete_band(*flow.default_band, instances));
  if (flow.default_negative_band) LLMD_TRY(complete_band(*flow.default_negative_band, instances));
  if (std::ranges::find(flow.bands, 0, &Band::priority) == flow.bands.end()) {
    flow.bands.push_back(*flow.default_band);
    flow.bands.back().priority = 0;
  }
  for (auto& band : flow.bands) LLMD_TRY(complete_band(band, instances));
  std::ranges::sort(flow.bands, std::ranges::greater(), &Band::priority);
  return {};
}

/// A source counts as present by its type, whatever its name, so that nothing is scraped twice.
Status add_metrics_source(Document& document, Instances& instances) {
  DataLayer& data = document.data_layer;
  if (!data.inject_defaults) return {};
  for (const auto& source : data.sources) {
    const Instance* instance = instances.find(source.plugin.name);
    if (instance && instance->plugin->type() == kSource) return {};
  }
  const auto present = [&](std::string_view type) -> Result<Instance*> {
    if (Instance* instance = instances.first_of_type(type)) return instance;
    return instances.add(type, "default");
  };
  LLMD_TRY_ASSIGN(const Instance* source, present(kSource));
  LLMD_TRY_ASSIGN(const Instance* extractor, present(kExtractor));
  data.sources.push_back({.plugin = {source->name(), source->where},
                          .extractors = {{extractor->name(), extractor->where}}});
  return {};
}

}  // namespace

Status add_defaults(Document& document, Instances& instances) {
  LLMD_TRY(add_scheduling(document, instances));
  LLMD_TRY(add_parsers(document, instances));
  LLMD_TRY(add_detector(document, instances));
  LLMD_TRY(add_flow_control(document, instances));
  return add_metrics_source(document, instances);
}

}  // namespace llmd::config
