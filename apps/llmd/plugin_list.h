#pragma once

#include "plugin/registry.h"

namespace llmd {

/// The plugin types that a configuration can name, as listed in plugin_list.inc.
plugin::Registry builtin_plugins();

}  // namespace llmd
