#pragma once

#include "flow/controller.h"
#include "flow/settings.h"
#include "schedule/interfaces.h"

#include <memory>

namespace llmd::flow {

/// Admission by flow control (spec 03): a request goes on at once, waits for its turn, or is
/// refused. Lifetime: `controller` and what the settings point at outlive the result.
std::unique_ptr<schedule::Admission> flow_admission(Controller& controller, Settings settings);

}  // namespace llmd::flow
