#include "plugin_list.h"

#define LLMD_PLUGIN(space, function)    \
  namespace llmd::space {               \
  const plugin::Descriptor& function(); \
  }
#include "plugin_list.inc"
#undef LLMD_PLUGIN

namespace llmd {

plugin::Registry builtin_plugins() {
  return plugin::Registry({
#define LLMD_PLUGIN(space, function) space::function(),
#include "plugin_list.inc"
#undef LLMD_PLUGIN
  });
}

}  // namespace llmd
