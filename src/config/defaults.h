#pragma once

#include "instances.h"

#include "config/document.h"

namespace llmd::config {

/// Fills in what the document leaves open (spec 02 §1.5 step 5): profile, handler, pickers,
/// weights, parsers, detector and metrics source. Plugins are added to `instances` as origin
/// "default".
Status add_defaults(Document& document, Instances& instances);

}  // namespace llmd::config
