#pragma once

#include "base/result.h"

#include <cstdint>
#include <string_view>

namespace llmd::flow {

/// How the wait of a request ended (spec 03 §3).
enum class Outcome : uint8_t {
  kNotYetFinalized,  // it waits
  kDispatched,
  kRejectedCapacity,
  kRejectedNoEndpoints,
  kRejectedOther,
  kEvictedTtl,
  kEvictedNoEndpoints,
  kEvictedContextCancelled,
  kEvictedOther,
  kRejectedDeadline,  // ours: it could not have been started in time
};
inline constexpr size_t kOutcomes = 10;

/// The value of the label `outcome`.
std::string_view outcome_name(Outcome outcome);

/// What a client is told of an outcome, by the table of spec 03 §3.3. `pool_empty`: there is no
/// endpoint at this moment. Requires: the request was not dispatched.
Error refusal(Outcome outcome, bool pool_empty);

}  // namespace llmd::flow
