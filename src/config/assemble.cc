#include "assemble.h"

#include "fleet/metrics_source.h"
#include "fleet/notification_source.h"
#include "metric/buckets.h"
#include "request/parser.h"

#include <algorithm>
#include <array>

namespace llmd::config {
namespace {

const metric::Definition kPluginDuration = {
    .name = "llm_d_epp_plugin_duration_seconds",
    .kind = metric::Kind::kHistogram,
    .help = "Time a plugin took, by where it was called.",
    .labels = {"extension_point", "plugin_type", "plugin_name"},
    .buckets = metric::buckets::kFast,
    .twins = {{.name = "inference_extension_plugin_duration_seconds",
               .labels = {{"extension_point", "extension_point"},
                          {"plugin_type", "plugin_type"},
                          {"plugin_name", "plugin_name"}}}},
};

class Assembler {
 public:
  Assembler(Instances& instances, metric::Registry& metrics, schedule::Pipeline& pipeline)
      : instances_(instances), durations_(metrics.family(kPluginDuration)), pipeline_(pipeline) {}

  Status profiles(const Document& document) {
    for (const auto& entry : document.profiles) {
      schedule::Profile& profile = pipeline_.profiles.emplace_back();
      profile.name = entry.name;
      for (const auto& use : entry.plugins) {
        LLMD_TRY_ASSIGN(Instance * instance, instances_.resolve(use.plugin, "pluginRef"));
        LLMD_TRY(place(use, *instance, profile));
      }
    }
    return {};
  }

  Status handler(const Document& document) {
    std::vector<Instance*> found;
    for (auto& instance : instances_)
      if (instance.is<schedule::ProfileHandler>()) found.push_back(&instance);
    if (found.empty())
      return fail(Code::kBadRequest,
                  document.file + ": " + std::to_string(document.profiles.size()) +
                      " profiles need a profile handler; declare one under plugins");
    if (found.size() > 1)
      return fail(Code::kBadRequest, found[1]->label() + ": is a second profile handler beside '" +
                                         found[0]->name() + "'; there must be one");
    std::vector<std::string> names;
    names.reserve(document.profiles.size());
    for (const auto& profile : document.profiles) names.push_back(profile.name);
    // Binding happens before the pipeline is shared, so the instance is still ours to change.
    auto* handler = dynamic_cast<schedule::ProfileHandler*>(found[0]->plugin.get());
    if (auto status = handler->bind(names); !status)
      return fail(std::move(status).error().in(found[0]->label()));
    pipeline_.handler = step<schedule::ProfileHandler>(*found[0], "ProfilePicker");
    return {};
  }

  Status parsers(const Document& document) {
    std::vector<const request::Parser*> parsers;
    for (const auto& ref : document.parsers) {
      LLMD_TRY_ASSIGN(Instance * instance, instances_.resolve(ref, "requestHandler.parsers"));
      const auto* parser = instance->as<request::Parser>();
      if (!parser) return wrong_kind(ref, *instance, "parser");
      instance->used = true;
      parsers.push_back(parser);
    }
    pipeline_.parsers = request::ParserTable(parsers);
    return {};
  }

  Status detector(const Document& document) {
    const Ref& ref = *document.flow_control.saturation_detector;
    LLMD_TRY_ASSIGN(Instance * instance, instances_.resolve(ref, "flowControl.saturationDetector"));
    pipeline_.detector = instance->as<schedule::SaturationDetector>();
    if (!pipeline_.detector) return wrong_kind(ref, *instance, "saturation detector");
    instance->used = true;
    return {};
  }

  Status data_layer(const Document& document) {
    for (const auto& source : document.data_layer.sources) {
      LLMD_TRY_ASSIGN(Instance * instance, instances_.resolve(source.plugin, "dataLayer.sources"));
      if (instance->is<fleet::NotificationSource>()) {
        instance->used = true;
        for (const auto& ref : source.extractors)
          LLMD_TRY(instances_.resolve(ref, "dataLayer.sources.extractors"));
        continue;
      }
      const auto* pages = instance->as<fleet::MetricsSource>();
      if (!pages) return wrong_kind(source.plugin, *instance, "data source");
      instance->used = true;
      LLMD_TRY(feeds(*instance, *pages, source.extractors));
    }
    return {};
  }

  void hooks(const std::vector<Instance*>& producers) {
    for (Instance* instance : producers)
      pipeline_.producers.push_back(step<schedule::Producer>(*instance, "DataProducer", false));
    for (auto& instance : instances_) {
      if (instance.is<schedule::RequestHook>())
        pipeline_.request.push_back(step<schedule::RequestHook>(instance, "RequestHeader"));
      if (instance.is<schedule::Screener>())
        pipeline_.screeners.push_back(step<schedule::Screener>(instance, "Screener"));
      if (instance.is<schedule::Admitter>())
        pipeline_.admitters.push_back(step<schedule::Admitter>(instance, "Admission"));
      // Hooks of a producer serve its own output, so they do not make it useful.
      const bool alone = !instance.is<schedule::Producer>();
      if (instance.is<schedule::PreRequest>())
        pipeline_.pre_request.push_back(step<schedule::PreRequest>(instance, "PreRequest", alone));
      if (instance.is<schedule::ResponseHook>())
        pipeline_.response.push_back(
            step<schedule::ResponseHook>(instance, "ResponseStreaming", alone));
      if (instance.is<schedule::Reporter>())
        pipeline_.reporters.push_back(step<schedule::Reporter>(instance, "ResponseStreaming"));
    }
  }

 private:
  template <class T>
  schedule::Step<T> step(Instance& instance, std::string_view point, bool uses = true) {
    instance.used |= uses;
    const std::array<std::string_view, 3> labels = {point, instance.plugin->metric_type(),
                                                    instance.name()};
    return {.plugin = instance.as<T>(), .duration = durations_.histogram(labels)};
  }

  Status place(const ProfileEntry::Use& use, Instance& instance, schedule::Profile& profile) {
    const auto warn = [&](std::string_view what) {
      pipeline_.warnings.push_back(use.plugin.where + ": profile '" + profile.name + "': '" +
                                   instance.name() + "' " + std::string(what));
    };
    const bool scores = instance.is<schedule::Scorer>();
    if (instance.is<schedule::Filter>())
      profile.filters.push_back(step<schedule::Filter>(instance, "Filter"));
    if (scores)
      profile.scorers.push_back(
          {step<schedule::Scorer>(instance, "Scorer"), use.weight.value_or(1.0)});
    if (instance.is<schedule::Picker>()) {
      if (profile.picker.plugin)
        return fail(Code::kBadRequest, use.plugin.where + ": profile '" + profile.name + "': '" +
                                           instance.name() + "' is a second picker beside '" +
                                           profile.picker.plugin->name() + "'");
      profile.picker = step<schedule::Picker>(instance, "Picker");
    } else if (!scores && !instance.is<schedule::Filter>()) {
      warn("has no effect: it is no filter, scorer or picker");
      return {};
    }
    if (!scores && use.weight) warn("has a weight, which only scorers have");
    return {};
  }

  /// The load is read once; further numbers by as many extractors as there are.
  Status feeds(const Instance& source, const fleet::MetricsSource& pages,
               const std::vector<Ref>& extractors) {
    for (const auto& ref : extractors) {
      LLMD_TRY_ASSIGN(Instance * instance, instances_.resolve(ref, "dataLayer.sources.extractors"));
      const auto* extractor = instance->as<fleet::MetricsExtractor>();
      if (!extractor) return wrong_kind(ref, *instance, "extractor");
      instance->used = true;
      const auto* load = pipeline_.load_feed();
      if (extractor->reads_load() && load)
        pipeline_.warnings.push_back(source.label() + ": is not scraped: '" + load->source->name() +
                                     "' already is a source of the same page");
      else
        pipeline_.feeds.push_back({&pages, extractor});
    }
    return {};
  }

  Instances& instances_;
  metric::Family& durations_;
  schedule::Pipeline& pipeline_;
};

}  // namespace

Status assemble(const Document& document, Instances& instances, metric::Registry& metrics,
                schedule::Pipeline& pipeline) {
  Assembler assembler(instances, metrics, pipeline);
  LLMD_TRY(assembler.profiles(document));
  LLMD_TRY(assembler.handler(document));
  LLMD_TRY(assembler.parsers(document));
  LLMD_TRY(assembler.detector(document));
  return assembler.data_layer(document);
}

void add_hooks(Instances& instances, const std::vector<Instance*>& producers,
               metric::Registry& metrics, schedule::Pipeline& pipeline) {
  Assembler(instances, metrics, pipeline).hooks(producers);
}

}  // namespace llmd::config
