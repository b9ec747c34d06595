#pragma once

#include "instances.h"

#include "config/document.h"
#include "metric/registry.h"
#include "schedule/pipeline.h"

#include <vector>

namespace llmd::config {

/// Puts the instances to where the document wants them (spec 02 §1.5 steps 6 to 8): profiles,
/// handler, parsers, detector, data layer. Marks as used what gets a place. Requires: defaults are
/// filled in.
Status assemble(const Document& document, Instances& instances, metric::Registry& metrics,
                schedule::Pipeline& pipeline);

/// Registers every instance for the request hooks that it implements, in declaration order;
/// `producers` in theirs.
void add_hooks(Instances& instances, const std::vector<Instance*>& producers,
               metric::Registry& metrics, schedule::Pipeline& pipeline);

}  // namespace llmd::config
