#pragma once

#include "instances.h"

#include "config/document.h"
#include "config/loader.h"
#include "schedule/wiring.h"

#include <string>
#include <vector>

namespace llmd::config {

/// What is legal but surely not meant: deprecated and ignored settings, plugins that nothing calls,
/// output that nobody reads, no scheduling plugins at all, thresholds that cannot hold. One line
/// each, with the remedy. Requires: the pipeline is assembled, so that used instances are marked.
void audit(const Document& document, Instances& instances, const schedule::Wiring& wiring,
           const Environment& environment, schedule::Pipeline& pipeline);

}  // namespace llmd::config
