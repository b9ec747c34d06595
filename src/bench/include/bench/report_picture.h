#pragma once

#include "bench/report.h"

#include <string>
#include <string_view>

namespace llmd::bench {

/// The experiment as one SVG picture: every TTFT of both policies on a logarithmic axis with P50
/// and P95, and bars for return rate, token hit rate and prefill tokens; published figures are
/// marked beside the measured ones. `caption`: one line on how it was run.
std::string report_picture(const Experiment& experiment, std::string_view caption);

}  // namespace llmd::bench
