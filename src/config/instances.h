#pragma once

#include "config/document.h"
#include "config/loader.h"
#include "plugin/registry.h"
#include "schedule/pipeline.h"

#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace llmd::config {

struct Instance {
  std::unique_ptr<plugin::Plugin> plugin;
  const plugin::Descriptor* descriptor = nullptr;
  std::string where;       // "FILE:LINE"; "" when no document declares it
  std::string origin;      // as ResolvedPlugin
  std::string parameters;  // effective, as JSON
  bool used = false;       // some part of the pipeline calls it

  const std::string& name() const { return plugin->name(); }
  /// "plugin 'NAME' (TYPE)", with its place in front if it has one.
  std::string label() const;
  /// The interface T of the plugin, or null.
  template <class T>
  const T* as() const {
    return dynamic_cast<const T*>(plugin.get());
  }
  template <class T>
  bool is() const {
    return as<T>() != nullptr;
  }
};

/// The plugins of one load: declared ones in order, then those that the loader adds.
/// References stay valid while more are added.
class Instances {
 public:
  explicit Instances(const Environment& environment) : environment_(environment) {}

  /// Refuses the first entry whose type does not exist.
  Status check_types(std::span<const PluginEntry> entries) const;
  Status declare(const PluginEntry& entry);
  /// Makes `type` under its own name and without parameters.
  Result<Instance*> add(std::string_view type, std::string origin);
  /// The instance named `type`, added as a default if there is none.
  Result<Instance*> ensure(std::string_view type);

  /// Whether the registry has the type.
  bool knows(std::string_view type) const { return environment_.registry.find(type) != nullptr; }

  Instance* find(std::string_view name);
  /// The instance that `ref` names; `field` is where it stands, for the error.
  Result<Instance*> resolve(const Ref& ref, std::string_view field);
  template <class T>
  Instance* first() {
    for (auto& instance : all_)
      if (instance.is<T>()) return &instance;
    return nullptr;
  }
  Instance* first_of_type(std::string_view type);

  auto begin() { return all_.begin(); }
  auto end() { return all_.end(); }
  size_t size() const { return all_.size(); }

 private:
  Result<const plugin::Descriptor*> descriptor_of(std::string_view type, std::string_view name,
                                                  std::string_view where) const;
  Result<Instance*> make(std::string_view type, std::string_view name,
                         const codec::Node* parameters, std::string where, std::string origin);

  const Environment& environment_;
  std::deque<Instance> all_;
};

/// "'NAME' is no KIND", located: for refs to a plugin that cannot do the job.
std::unexpected<Error> wrong_kind(const Ref& ref, const Instance& instance, std::string_view kind);

}  // namespace llmd::config
