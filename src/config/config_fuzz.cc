#include "plugin_list.h"

#include "base/check.h"
#include "config/dump.h"
#include "config/loader.h"

#include <cstddef>
#include <cstdint>

/// Any text is either refused with a located message or loads; what loads, dumps to a document that
/// loads.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace llmd;
  static const plugin::Registry registry = builtin_plugins();
  static const ManualClock clock;
  static metric::Registry metrics(1);
  plugin::StateStore state;
  const config::Environment environment{registry, state, metrics, clock, nullptr, true};
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto loaded = config::load(text, "f", environment);
  if (!loaded) {
    CHECK(!loaded.error().message.empty());
    return 0;
  }
  config::to_text(*loaded);
  CHECK(config::load(config::to_yaml(*loaded), "f", environment).has_value());
  return 0;
}
