#pragma once

#include "fleet/address.h"
#include "io/loop.h"
#include "io/loop_thread.h"
#include "metric/registry.h"
#include "predict/latency_predictor.h"
#include "predict/service_options.h"

#include <memory>

namespace llmd::predict {

/// Asks a prediction service about the candidates of requests. The rows of requests that come
/// within a short window go together, those of one request in as many calls as they need; a request
/// whose calls have all come back is woken. What takes too long is nobody's: it is forgotten.
/// Samples are sent at intervals; of more than fit a random part is kept, of each kind alike.
///
/// Bounds: kAsksMax requests wait at a time, further ones are refused; `calls_max` calls; answers
/// of kAnswerBytesMax. After a server could not be reached, requests are refused at once for
/// kPause, so that they do not wait for nothing.
///
/// Threading: made and destroyed on the loop's thread, or while the loop does not run; predict()
/// and learn() from any. May resolve names on the loop: give it one where that does no harm.
class PredictionClient final : public LatencyPredictor {
 public:
  static constexpr size_t kAsksMax = 1024;
  static constexpr size_t kAnswerBytesMax = 1u << 20;
  static constexpr Nanos kPause = std::chrono::seconds(1);

  PredictionClient(io::Loop& loop, ServiceOptions options, fleet::Resolver resolver,
                   metric::Registry& metrics);
  ~PredictionClient() override;

  Result<schedule::Progress> predict(schedule::RequestContext& context, uint64_t& ticket,
                                     std::span<const LatencyFeatures> features,
                                     std::span<PredictedLatency> latencies) override;
  void learn(const LatencyFeatures& features, PredictedLatency actual, WallTime when) override;

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

/// A client on a thread of its own. Threading: as the client; construct, stop and destroy on one
/// thread.
class PredictionService final : public LatencyPredictor {
 public:
  /// `index`: of the loop, among those of the process.
  PredictionService(size_t index, uint64_t seed, ServiceOptions options, metric::Registry& metrics);
  ~PredictionService() override { stop(); }

  /// Nobody is woken any more. Idempotent.
  void stop() { thread_.stop(); }

  Result<schedule::Progress> predict(schedule::RequestContext& context, uint64_t& ticket,
                                     std::span<const LatencyFeatures> features,
                                     std::span<PredictedLatency> latencies) override {
    return client_.predict(context, ticket, features, latencies);
  }
  void learn(const LatencyFeatures& features, PredictedLatency actual, WallTime when) override {
    client_.learn(features, actual, when);
  }

 private:
  io::LoopThread thread_;
  PredictionClient client_;
};

}  // namespace llmd::predict
