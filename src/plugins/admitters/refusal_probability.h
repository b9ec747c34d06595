#pragma once

#include <algorithm>
#include <cmath>

namespace llmd::plugins {

/// The share of requests that a pool of this saturation refuses (spec 02 §12).
inline double refusal_probability(double saturation, double power, double k) {
  return std::min(1.0, std::pow(saturation, power) * k);
}

}  // namespace llmd::plugins
