#pragma once

#include "base/clock.h"
#include "base/result.h"
#include "schedule/interfaces.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

namespace llmd::predict {

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
  /// then called again with the `ticket` that it left, which is 0 at first.
  virtual Result<schedule::Progress> predict(schedule::RequestContext& context, uint64_t& ticket,
                                             std::span<const LatencyFeatures> features,
                                             std::span<PredictedLatency> latencies) = 0;
  /// What a request took, for the model to learn from: one of the times, the other 0.
  virtual void learn(const LatencyFeatures& /*features*/, PredictedLatency /*actual*/,
                     WallTime /*when*/) {}
};

/// Where producers find the predictor of the process, kept under kName in the StateStore.
struct LatencyPredictorSlot {
  static constexpr std::string_view kName = "latency predictor";
  /// Called when a configuration with such a producer is loaded. Empty: nothing is predicted.
  std::function<std::shared_ptr<LatencyPredictor>()> get;
};

}  // namespace llmd::predict
