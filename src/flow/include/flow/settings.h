#pragma once

#include "base/clock.h"
#include "flow/evictor.h"
#include "flow/policies.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace llmd::flow {

/// What may wait at a time; 0: any number.
struct Limits {
  int64_t bytes = 0;
  int64_t requests = 0;
  int64_t tokens = 0;  // of work
};

struct BandSettings {
  int32_t priority = 0;
  Limits limits;
  const OrderingPolicy* ordering = nullptr;
  const FairnessPolicy* fairness = nullptr;
};

/// Flow control as configured. Lifetime: the policies belong to `owner`.
struct Settings {
  static constexpr Nanos kDefaultTtl = std::chrono::seconds(60);
  static constexpr int64_t kBandBytes = 1'000'000'000;
  static constexpr int64_t kBandRequests = 5000;

  Limits limits;                        // over all bands
  Nanos ttl = kDefaultTtl;              // while there are endpoints; 0: none
  Nanos no_endpoint_ttl = kDefaultTtl;  // while there are none; 0: none
  std::vector<BandSettings> bands;      // descending priority; priority 0 among them
  BandSettings other;                   // of priorities that are not listed
  std::optional<BandSettings> other_negative;
  const UsageLimitPolicy* usage = nullptr;
  const schedule::SaturationDetector* detector = nullptr;
  bool refuse_late = false;  // at once, what cannot be started before its deadline
  bool retry_after = false;  // say with refusals when to come again
  std::string ttl_header;  // in lower case; milliseconds that a client gives its request; "": none

  std::shared_ptr<Evictor> evictor;  // null: running requests stay
  Nanos eviction_lag{0};             // from the end of a request until the detector knows

  std::shared_ptr<const void> owner;  // keeps the policies

  /// The band of `priority`, from its entry or a template.
  BandSettings band(int32_t priority) const {
    for (const auto& listed : bands)
      if (listed.priority == priority) return listed;
    BandSettings made = priority < 0 && other_negative ? *other_negative : other;
    made.priority = priority;
    return made;
  }
  bool lists(int32_t priority) const {
    for (const auto& listed : bands)
      if (listed.priority == priority) return true;
    return false;
  }
};

}  // namespace llmd::flow
