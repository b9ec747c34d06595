#pragma once

#include "instances.h"

#include "config/document.h"
#include "config/loader.h"
#include "schedule/interfaces.h"

#include <memory>

namespace llmd::config {

/// What lets requests in: flow control when its gate is on. Requires: the document is complete
/// (add_defaults). Lifetime: the plugins and the environment outlive the result.
Result<std::unique_ptr<schedule::Admission>> admission(const Document& document,
                                                       Instances& instances,
                                                       const schedule::SaturationDetector& detector,
                                                       const Environment& environment);

/// The hooks by which running requests are followed that may have to give way, called "eviction";
/// null: none has to. Not of a type that documents can name.
Result<std::unique_ptr<plugin::Plugin>> eviction(const Document& document,
                                                 const Environment& environment);

}  // namespace llmd::config
