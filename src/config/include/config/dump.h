#pragma once

#include "config/loader.h"
#include "plugin/registry.h"

#include <string>

/// Loaded configurations and plugin types, written for people.
namespace llmd::config {

/// The resolved graph: gates, parsers, plugins with origin and effective parameters, producers in
/// order, profiles, detector, warnings.
std::string to_text(const Loaded& loaded);

/// The same as an EndpointPickerConfig that loads to the same graph; what YAML has no place for is
/// in comments.
std::string to_yaml(const Loaded& loaded);

/// The reference page of all plugin types, docs/plugins.md.
std::string plugins_reference(const plugin::Registry& registry);

}  // namespace llmd::config
