#include "audit.h"

#include "base/text.h"
#include "fleet/discovery.h"
#include "fleet/metrics_source.h"
#include "fleet/notification_source.h"
#include "flow/policies.h"
#include "request/parser.h"

#include <algorithm>

namespace llmd::config {
namespace {

using Edge = schedule::Wiring::Edge;

class Audit {
 public:
  Audit(const Document& document, Instances& instances, const schedule::Wiring& wiring,
        std::vector<std::string>& warnings)
      : document_(document), instances_(instances), wiring_(wiring), warnings_(warnings) {}

  void run() {
    flow_control();
    scheduling();
    data_layer();
    for (const auto& instance : instances_) {
      if (instance.origin != "configured") continue;
      deprecations(instance);
      if (!instance.used) unused(instance);
    }
  }

  void eviction(const schedule::Pipeline& pipeline) {
    if (!document_.gate("flowControl") || !document_.flow_control.enable_eviction ||
        pipeline.detector->follows_requests())
      return;
    warnings_.push_back(document_.file + ": flowControl.enableEviction: '" +
                        pipeline.detector->name() +
                        "' learns of freed places with the next scrape only, so more requests "
                        "than needed give way; use concurrency-detector");
  }

  /// The gate keeps a limit of all endpoints together, the filter that of each.
  void unfiltered(const schedule::Pipeline& pipeline) {
    const auto* filter = dynamic_cast<const schedule::Filter*>(pipeline.detector);
    if (!document_.gate("flowControl") || !pipeline.detector->follows_requests() || !filter) return;
    for (const auto& profile : pipeline.profiles)
      if (std::ranges::find(profile.filters, filter, &schedule::Step<schedule::Filter>::plugin) !=
          profile.filters.end())
        return;
    warn(*instances_.find(pipeline.detector->name()),
         "is in no scheduling profile: one endpoint may get more than its limit while others have "
         "room");
  }

  void staleness(const schedule::Pipeline& pipeline, Nanos interval) {
    if (const auto* load = pipeline.load_feed())
      interval = load->source->options().interval.value_or(interval);
    const Instance* detector = instances_.find(pipeline.detector->name());
    const auto threshold = duration_parameter(*detector, "metricsStalenessThreshold");
    if (!threshold || *threshold > interval) return;
    warn(*detector, "metricsStalenessThreshold " + format_duration(*threshold) +
                        " is not above the scrape interval " + format_duration(interval) +
                        ": every endpoint will count as stale; raise it");
  }

 private:
  void warn(const Instance& instance, const std::string& what) {
    warnings_.push_back(instance.label() + ": " + what);
  }

  void flow_control() {
    const auto& given = document_.flow_control.given;
    if (given.empty() || document_.gate("flowControl")) return;
    std::string names;
    for (const auto& name : given) names += (names.empty() ? "" : ", ") + name;
    warnings_.push_back(document_.file + ": flowControl: " + names +
                        (given.size() == 1 ? " has" : " have") +
                        " no effect while the feature gate flowControl is off");
  }

  /// A file that only turns something on has no scorers, unlike a router without a file.
  void scheduling() {
    const auto made = [](const auto& use) { return use.plugin.where.empty(); };
    for (const auto& profile : document_.profiles)
      if (profile.where.empty() && std::ranges::all_of(profile.plugins, made))
        warnings_.push_back(document_.file +
                            ": plugins: none schedules, so endpoints are chosen regardless of "
                            "their load and caches; declare scorers");
  }

  void data_layer() {
    const auto& data = document_.data_layer;
    for (const auto& [ref, field] :
         {std::pair(&data.peer_discovery, "peerDiscovery"),
          std::pair(&data.cross_replica_syncer, "crossReplicaSyncerPluginRef")})
      if (*ref)
        warnings_.push_back((*ref)->where + ": dataLayer." + field +
                            " has no effect in this build");
  }

  void deprecations(const Instance& instance) {
    const auto& descriptor = *instance.descriptor;
    if (!descriptor.replaced_by.empty())
      warn(instance, "the type is deprecated; use " + std::string(descriptor.replaced_by));
    const auto entry = std::ranges::find(document_.plugins, instance.name(), &PluginEntry::name);
    if (entry == document_.plugins.end() || !entry->parameters) return;
    if (descriptor.ignores_parameters && !entry->parameters->members.empty())
      warn(instance, "the type ignores its parameters");
    for (const auto& [name, value] : entry->parameters->members)
      for (const auto& param : descriptor.params)
        if (param.deprecated && equals_ignore_case(param.name, name))
          warnings_.push_back(value.where() + ": plugin '" + instance.name() + "': parameter '" +
                              param.name + "' is deprecated");
  }

  void unused(const Instance& instance) {
    if (instance.is<schedule::Producer>()) return unread(instance);
    if (instance.is<schedule::Filter>() || instance.is<schedule::Scorer>() ||
        instance.is<schedule::Picker>())
      return warn(instance, "is not used: no scheduling profile refers to it");
    if (instance.is<schedule::Decider>())
      return warn(instance, "is not used: no profile handler refers to it");
    if (instance.is<schedule::SaturationDetector>())
      return warn(instance, "is not used: flowControl.saturationDetector is '" +
                                document_.flow_control.saturation_detector->name + "'");
    if (instance.is<flow::OrderingPolicy>() || instance.is<flow::FairnessPolicy>() ||
        instance.is<flow::UsageLimitPolicy>())
      return warn(instance, "is not used: flowControl does not refer to it");
    if (instance.is<request::Parser>())
      return warn(instance, "is not used: requestHandler.parsers does not list it");
    if (instance.is<fleet::DiscoveryPlugin>())
      return warn(instance, "is not used: dataLayer.discovery does not refer to it");
    if (instance.is<fleet::MetricsSource>() || instance.is<fleet::MetricsExtractor>() ||
        instance.is<fleet::NotificationSource>())
      return warn(instance, "is not used: dataLayer.sources does not refer to it");
  }

  /// A producer whose keys nobody reads. The usual reason: its readers still name another instance.
  void unread(const Instance& producer) {
    bool produces = false;
    for (const auto& made : wiring_.edges()) {
      if (made.plugin != producer.plugin.get() || made.kind != Edge::Kind::kProduces) continue;
      produces = true;
      for (const auto& read : wiring_.edges()) {
        if (read.kind == Edge::Kind::kProduces || read.type != made.type) continue;
        const Instance& reader = *instances_.find(read.plugin->name());
        const auto other = read.key.substr(read.key.rfind('/') + 1);
        warn(producer, "its output is not consumed: '" + reader.name() + "' reads from '" + other +
                           "'; set " + name_parameter(reader, other) + " of '" + reader.name() +
                           "' to '" + producer.name() + "'");
        return;
      }
    }
    if (produces) warn(producer, "its output is not consumed");
  }

  /// The parameter by which `reader` names the producer that it reads from.
  static std::string name_parameter(const Instance& reader, const std::string& producer) {
    for (const auto& param : reader.descriptor->params)
      if (param.name.ends_with("ProducerName") && param.default_value == '"' + producer + '"')
        return param.name;
    return "prefixMatchInfoProducerName";
  }

  static std::optional<Nanos> duration_parameter(const Instance& instance, std::string_view name) {
    const auto parameters = codec::parse_yaml(instance.parameters, "parameters");
    const codec::Node* value = parameters ? parameters->find(name) : nullptr;
    if (!value || value->type != codec::Node::Type::kString) return std::nullopt;
    const auto duration = parse_duration(value->text);
    return duration ? std::optional(*duration) : std::nullopt;
  }

  const Document& document_;
  Instances& instances_;
  const schedule::Wiring& wiring_;
  std::vector<std::string>& warnings_;
};

}  // namespace

void audit(const Document& document, Instances& instances, const schedule::Wiring& wiring,
           const Environment& environment, schedule::Pipeline& pipeline) {
  Audit audit(document, instances, wiring, pipeline.warnings);
  audit.run();
  audit.eviction(pipeline);
  audit.unfiltered(pipeline);
  audit.staleness(pipeline, environment.scrape_interval);
}

}  // namespace llmd::config
