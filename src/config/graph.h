#pragma once

#include "instances.h"

#include "schedule/wiring.h"

#include <string>
#include <vector>

/// The data flow between plugins (spec 02 §1.6).
namespace llmd::config {

/// Wires every instance; creates producers for required keys that nobody produces, until there are
/// none; checks value types and layers. Marks producers whose output is read as used.
Status connect(Instances& instances, schedule::Wiring& wiring, const plugin::Registry& registry,
               std::vector<std::string>& warnings);

/// The producers so that each runs after those it reads from, required or optional, otherwise in
/// declaration order. A cycle through required keys is an error; one through optional keys is a
/// warning.
Result<std::vector<Instance*>> order_producers(Instances& instances, const schedule::Wiring& wiring,
                                               std::vector<std::string>& warnings);

}  // namespace llmd::config
