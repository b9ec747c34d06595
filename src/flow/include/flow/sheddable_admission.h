#pragma once

#include "schedule/interfaces.h"

#include <memory>

namespace llmd::flow {

/// Admission without flow control (spec 03 §1): a request of negative priority is refused while the
/// detector calls the endpoints that it could use saturated; everything else passes at once.
/// Lifetime: `detector` outlives the result. Cost for priorities from 0 on: one comparison.
std::unique_ptr<schedule::Admission> sheddable_admission(
    const schedule::SaturationDetector& detector);

}  // namespace llmd::flow
