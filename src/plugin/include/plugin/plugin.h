#pragma once

#include <string>
#include <string_view>

namespace llmd::plugin {

/// A configured plugin instance. What it does comes from the interfaces it implements besides this
/// one: a scorer, a filter, a producer … (schedule/interfaces.h, request/parser.h). Instances are
/// immutable after loading; anything that changes lives in a StateStore object or in the request.
/// Threading: all methods are called from many loops at once.
class Plugin {
 public:
  Plugin() = default;
  Plugin(const Plugin&) = delete;
  Plugin& operator=(const Plugin&) = delete;
  virtual ~Plugin() = default;

  const std::string& type() const { return type_; }
  /// The instance name: unique within a configuration; defaults to the type.
  const std::string& name() const { return name_; }

  /// The plugin_type of its metrics, where it is not the type.
  virtual std::string_view metric_type() const { return type_; }

  /// What /debug/plugins/state shows for this instance, as a JSON value; "" when there is nothing
  /// to show.
  virtual std::string dump_state() const { return {}; }

 private:
  friend class Registry;
  std::string type_;
  std::string name_;
};

}  // namespace llmd::plugin
