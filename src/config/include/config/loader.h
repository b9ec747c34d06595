#pragma once

#include "base/clock.h"
#include "base/result.h"
#include "config/document.h"
#include "fleet/discovery.h"
#include "fleet/fleet.h"
#include "metric/registry.h"
#include "plugin/registry.h"
#include "plugin/state_store.h"
#include "schedule/pipeline.h"

#include <string_view>

/// From a document to a pipeline that can run: the load of spec 02 §1.5 and the producer graph of
/// §1.6. Wherever an order is free, it is the order of declaration.
namespace llmd::config {

/// What a load may use. All of it outlives the pipelines that come from it.
struct Environment {
  const plugin::Registry& registry;
  plugin::StateStore& state;
  metric::Registry& metrics;
  const Clock& clock;
  fleet::Fleet* fleet = nullptr;  // whose membership plugins follow; null: nobody's, as for a check
  bool allow_experimental = false;
  Nanos scrape_interval =
      std::chrono::milliseconds(50);  // of sources without an interval of their own
};

struct Loaded {
  schedule::PipelinePtr pipeline;
  Document document;  // with every default filled in
  const fleet::DiscoveryPlugin* discovery =
      nullptr;  // owned by the pipeline; null: none configured
};

/// Errors are one line: file, line, field, value, nearest valid name. What is legal but surely not
/// meant is in pipeline->warnings. Threading: control thread. A failed load leaves nothing behind
/// but StateStore entries.
Result<Loaded> load(std::string_view text, std::string_view file, const Environment& environment);

}  // namespace llmd::config
