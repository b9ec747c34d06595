#pragma once

#include "schedule/interfaces.h"

namespace llmd::schedule {

/// A saturation detector that goes by scraped metrics, and so learns late of requests that were sent
/// or that have ended.
class LaggingDetector : public SaturationDetector {
 public:
  /// The saturation for a gate that lets requests in one after the other: counts also those that
  /// were sent and that no metrics show yet.
  virtual double pressure(std::span<const Candidate> candidates, TimePoint now) const = 0;
};

}  // namespace llmd::schedule
