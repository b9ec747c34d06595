#pragma once

#include <cmath>
#include <limits>

namespace llmd::plugins {

/// Sampling with weights and without replacement, after Efraimidis and Spirakis: whoever has the
/// highest u^(1/score), u uniform in [0, 1), is drawn first (spec 02 §9). This is the logarithm of
/// that key, which orders the same and does not underflow. Scores from 0 down come last.
inline double weighted_key(double score, double u) {
  if (score <= 0) return -std::numeric_limits<double>::infinity();
  return std::log(u > 0 ? u : 1e-10) / score;
}

}  // namespace llmd::plugins
