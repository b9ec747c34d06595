#pragma once

#include "base/result.h"
#include "schedule/interfaces.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace llmd::plugins {

/// What a prediction of an endpoint's latency starts from.
struct LatencyFeatures {
  double kv_cache_usage = 0;  // 0 to 1
  int64_t input_tokens = 0;
  int64_t waiting_requests = 0;
  int64_t running_requests = 0;
  double prefix_share = 0;  // of the prompt that is cached, 0 to 1
  int64_t encoder_items = 0;
  int64_t encoder_matched = 0;  // at most encoder_items
  int64_t prefill_tokens_in_flight = 0;
  std::string_view role;  // "" when endpoints have none
};

struct PredictedLatency {
  double ttft_ms = 0;
  double tpot_ms = 0;
};

/// Predicts latencies: a local model or the client of a prediction server.
/// Threading: any; called from all loops.
class LatencyPredictor {
 public:
  virtual ~LatencyPredictor() = default;
  /// Fills `latencies`, parallel to `features`; all or an error. May suspend the request: it is
  /// then called again, and the features may have changed.
  virtual Result<schedule::Progress> predict(schedule::RequestContext& context,
                                             std::span<const LatencyFeatures> features,
                                             std::span<PredictedLatency> latencies) = 0;
};

/// Where a producer finds its predictor, kept under its name in the StateStore. Empty: there is
/// none, and nothing is predicted. Set before the configuration is loaded.
struct LatencyPredictorSlot {
  std::shared_ptr<LatencyPredictor> predictor;
};

}  // namespace llmd::plugins
