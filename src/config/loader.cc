#include "config/loader.h"

#include "admission.h"
#include "assemble.h"
#include "audit.h"
#include "defaults.h"
#include "graph.h"
#include "instances.h"

namespace llmd::config {
namespace {

Status check_stability(Instances& instances, bool allow_experimental) {
  if (allow_experimental) return {};
  for (const auto& instance : instances)
    if (instance.descriptor->stability == plugin::Stability::kAlpha)
      return fail(Code::kBadRequest, instance.label() +
                                         ": is experimental; start with "
                                         "--allow-experimental-plugins to use it");
  return {};
}

/// The plugin that finds endpoints, if the document names one.
Result<const fleet::DiscoveryPlugin*> discovery(const Document& document, Instances& instances) {
  const auto& ref = document.data_layer.discovery;
  if (!ref) return nullptr;
  LLMD_TRY_ASSIGN(Instance * instance, instances.resolve(*ref, "dataLayer.discovery"));
  const auto* plugin = instance->as<fleet::DiscoveryPlugin>();
  if (!plugin) return wrong_kind(*ref, *instance, "discovery plugin");
  instance->used = true;
  return plugin;
}

void hand_over(Instances& instances, schedule::Pipeline& pipeline) {
  for (auto& instance : instances) {
    pipeline.resolved.push_back({.name = instance.name(),
                                 .type = instance.plugin->type(),
                                 .origin = instance.origin,
                                 .parameters = instance.parameters,
                                 .plugin = instance.plugin.get()});
    pipeline.plugins.push_back(std::move(instance.plugin));
  }
}

void wire(plugin::Plugin& plugin, schedule::Wiring& wiring) {
  wiring.begin(plugin);
  dynamic_cast<schedule::Wired&>(plugin).wire(wiring);
}

/// Adds a plugin that no document declares: it sees requests after all others.
void add_hooks(std::unique_ptr<plugin::Plugin> plugin, schedule::Pipeline& pipeline) {
  pipeline.pre_request.push_back({dynamic_cast<const schedule::PreRequest*>(plugin.get()), {}});
  pipeline.response.push_back({dynamic_cast<const schedule::ResponseHook*>(plugin.get()), {}});
  pipeline.plugins.push_back(std::move(plugin));
}

void subscribe(const schedule::Wiring& wiring, fleet::Fleet* fleet, schedule::Pipeline& pipeline) {
  if (!fleet) return;
  for (const auto& listener : wiring.listeners())
    pipeline.subscriptions.push_back(fleet->listen(listener));
}

}  // namespace

Result<Loaded> load(std::string_view text, std::string_view file, const Environment& environment) {
  LLMD_TRY_ASSIGN(Document document, parse_document(text, file));

  auto pipeline = std::make_shared<schedule::Pipeline>();
  pipeline->gates = document.gates;
  pipeline->warnings = document.warnings;

  Instances instances(environment);
  LLMD_TRY(instances.check_types(document.plugins));
  for (const auto& entry : document.plugins) LLMD_TRY(instances.declare(entry));
  LLMD_TRY(add_defaults(document, instances));

  LLMD_TRY(assemble(document, instances, environment.metrics, *pipeline));
  LLMD_TRY_ASSIGN(const fleet::DiscoveryPlugin* finder, discovery(document, instances));

  std::vector<std::string> profiles;
  for (const auto& profile : pipeline->profiles) profiles.push_back(profile.name);
  schedule::Wiring wiring(std::move(profiles), pipeline->handler.plugin->prefill_profile());
  LLMD_TRY(connect(instances, wiring, environment.registry, pipeline->warnings));
  LLMD_TRY_ASSIGN(const auto producers, order_producers(instances, wiring, pipeline->warnings));
  LLMD_TRY_ASSIGN(auto hooks, eviction(document, environment));
  if (hooks) wire(*hooks, wiring);
  pipeline->columns = wiring.columns();
  pipeline->slots = wiring.slots();
  pipeline->cached = wiring.any<schedule::PrefixMatch>("approx-prefix-cache-producer");
  LLMD_TRY_ASSIGN(pipeline->admission,
                  admission(document, instances, *pipeline->detector, environment));
  add_hooks(instances, producers, environment.metrics, *pipeline);
  if (hooks) add_hooks(std::move(hooks), *pipeline);
  LLMD_TRY(check_stability(instances, environment.allow_experimental));
  audit(document, instances, wiring, environment, *pipeline);

  hand_over(instances, *pipeline);
  pipeline->outline = schedule::outline_of(*pipeline);
  subscribe(wiring, environment.fleet, *pipeline);
  return Loaded{
      .pipeline = std::move(pipeline), .document = std::move(document), .discovery = finder};
}

}  // namespace llmd::config
