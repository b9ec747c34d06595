#include "instances.h"

#include "base/limits.h"
#include "base/text.h"

#include <algorithm>

namespace llmd::config {

std::string Instance::label() const {
  const std::string place = where.empty() ? "" : where + ": ";
  return place + "plugin '" + name() + "' (" + plugin->type() + ")";
}

Result<const plugin::Descriptor*> Instances::descriptor_of(std::string_view type,
                                                           std::string_view name,
                                                           std::string_view where) const {
  if (const auto* descriptor = environment_.registry.find(type)) return descriptor;
  return fail(Code::kBadRequest, (where.empty() ? "" : std::string(where) + ": ") + "plugin '" +
                                     std::string(name) + "': unknown type '" + std::string(type) +
                                     "'" + suggestion(type, environment_.registry.types()));
}

Status Instances::check_types(std::span<const PluginEntry> entries) const {
  for (const auto& entry : entries)
    if (auto found = descriptor_of(entry.type, entry.name, entry.where); !found)
      return fail(std::move(found).error());
  return {};
}

Status Instances::declare(const PluginEntry& entry) {
  const codec::Node* parameters = entry.parameters ? &*entry.parameters : nullptr;
  auto made = make(entry.type, entry.name, parameters, entry.where, "configured");
  return made ? Status() : fail(std::move(made).error());
}

Result<Instance*> Instances::add(std::string_view type, std::string origin) {
  if (const Instance* other = find(type))
    return fail(Code::kBadRequest, other->label() + ": the name is needed for the plugin " +
                                       std::string(type) + ", " + origin + "; choose another");
  return make(type, type, nullptr, "", std::move(origin));
}

Result<Instance*> Instances::ensure(std::string_view type) {
  if (Instance* instance = find(type)) return instance;
  return make(type, type, nullptr, "", "default");
}

Result<Instance*> Instances::make(std::string_view type, std::string_view name,
                                  const codec::Node* parameters, std::string where,
                                  std::string origin) {
  const auto failed = [&](std::string message) {
    return fail(Code::kBadRequest, (where.empty() ? "" : where + ": ") + message);
  };
  LLMD_TRY_ASSIGN(const auto* descriptor, descriptor_of(type, name, where));
  if (all_.size() == limits::kPluginsMax)
    return failed("plugin '" + std::string(name) + "': more than " +
                  std::to_string(limits::kPluginsMax) + " plugins");
  const plugin::Context context{name, environment_.state, environment_.metrics, environment_.clock};
  auto made = environment_.registry.make(*descriptor, context, parameters);
  if (!made) {
    const bool located =
        !where.empty() && made.error().message.starts_with(where.substr(0, where.rfind(':') + 1));
    return located ? fail(std::move(made).error()) : failed(std::move(made).error().message);
  }
  return &all_.emplace_back(Instance{.plugin = std::move(made->plugin),
                                     .descriptor = descriptor,
                                     .where = std::move(where),
                                     .origin = std::move(origin),
                                     .parameters = std::move(made->parameters)});
}

Instance* Instances::find(std::string_view name) {
  const auto at = std::ranges::find(
      all_, name, [](const Instance& i) -> const std::string& { return i.name(); });
  return at == all_.end() ? nullptr : &*at;
}

Instance* Instances::first_of_type(std::string_view type) {
  const auto at = std::ranges::find(
      all_, type, [](const Instance& i) -> const std::string& { return i.plugin->type(); });
  return at == all_.end() ? nullptr : &*at;
}

Result<Instance*> Instances::resolve(const Ref& ref, std::string_view field) {
  if (Instance* instance = find(ref.name)) return instance;
  std::vector<std::string_view> names;
  for (const auto& instance : all_) names.push_back(instance.name());
  std::string hint = suggestion(ref.name, names);
  if (hint.empty()) hint = suggestion(ref.name, environment_.registry.types());
  if (environment_.registry.find(ref.name)) hint = "; declare it under plugins";
  return fail(Code::kBadRequest, ref.where + ": " + std::string(field) + ": no plugin is named '" +
                                     ref.name + "'" + hint);
}

std::unexpected<Error> wrong_kind(const Ref& ref, const Instance& instance, std::string_view kind) {
  return fail(Code::kBadRequest, ref.where + ": pluginRef '" + ref.name + "' (" +
                                     instance.plugin->type() + "): is no " + std::string(kind));
}

}  // namespace llmd::config
