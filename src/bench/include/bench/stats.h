#pragma once

#include <span>

namespace llmd::bench {

/// The `p`-th percentile (0..100) with linear interpolation between the two nearest order
/// statistics; 0 for no samples. Cost: sorts a copy.
double percentile(std::span<const double> samples, double p);

double mean(std::span<const double> samples);

}  // namespace llmd::bench
