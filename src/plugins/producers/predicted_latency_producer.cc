#include "latency_predictor.h"
#include "media_match.h"
#include "request_tokens.h"
#include "running_slos.h"
#include "slo.h"

#include "plugin/registry.h"
#include "schedule/attributes.h"
#include "schedule/wiring.h"

#include <algorithm>
#include <cmath>

namespace llmd::plugins {
namespace {

using schedule::InFlightLoad;
using schedule::LatencyPrediction;
using schedule::PrefixMatch;
using schedule::Progress;
using schedule::RequestContext;

struct Params {
  double slo_buffer_factor = 1;
  Nanos context_ttl = std::chrono::minutes(5);
  bool streaming = false;
  std::string role_label;
  bool predict_in_produce = true;
  bool use_encoder_cache = false;
  std::string matches = "approx-prefix-cache-producer";
  std::string load = "inflight-load-producer";
  std::string media = "mm-embeddings-cache-producer";
  double sampling_mean = 0;
  int64_t samples_max = 0;
};

/// A Go duration, or a whole number of nanoseconds.
plugin::Param<Params> nanoseconds(std::string_view name, Nanos Params::* member,
                                  std::string_view doc) {
  auto param = plugin::field(name, member, "", doc);
  param.set = [read = param.set, member](Params& p, const codec::Node& node) -> Status {
    if (node.type != codec::Node::Type::kInt) return read(p, node);
    int64_t count = 0;
    LLMD_TRY(plugin::values::read(node, count));
    p.*member = Nanos(count);
    return {};
  };
  return param;
}

const plugin::Params<Params>& table() {
  static const plugin::Params<Params> params = {
      plugin::field("sloBufferFactor", &Params::slo_buffer_factor, "",
                    "Factor on the objective of the time per token.")
          .positive(),
      nanoseconds("contextTTL", &Params::context_ttl,
                  "Has no effect: a request is tracked until it ends. Also accepted as a whole "
                  "number of nanoseconds."),
      plugin::field("streamingMode", &Params::streaming, "",
                    "Requests are streamed, so that the time per token counts."),
      plugin::field("endpointRoleLabel", &Params::role_label, "",
                    "Endpoint label with its role; the time per token does not count for prefill."),
      plugin::field("predictInProduce", &Params::predict_in_produce, "",
                    "Predict before scheduling; without, only the load is tracked."),
      plugin::field("useEncoderCacheFeatures", &Params::use_encoder_cache, "",
                    "Tell the predictor of encoded images too."),
      plugin::field("prefixMatchInfoProducerName", &Params::matches, "",
                    "Producer of the prefix matches."),
      plugin::field("inFlightLoadProducerName", &Params::load, "",
                    "Producer of the load in flight."),
      plugin::field("encoderCacheMatchInfoProducerName", &Params::media, "",
                    "Producer of the encoded images."),
      plugin::field("samplingMean", &Params::sampling_mean, "", "Has no effect.").deprecated(),
      plugin::field("maxDecodeTokenSamplesForPrediction", &Params::samples_max, "",
                    "Has no effect.")
          .deprecated(),
  };
  return params;
}

class PredictedLatencyProducer final : public schedule::Producer,
                                       public schedule::PreRequest,
                                       public schedule::ResponseHook {
 public:
  PredictedLatencyProducer(Params p, const plugin::Context& context)
      : params_(std::move(p)),
        predictor_(
            context.state
                .get<LatencyPredictorSlot>(context.name, [] { return new LatencyPredictorSlot; })
                ->predictor),
        running_(context.state.get<RunningSlos>(context.name, [] { return new RunningSlos; })) {}

  void wire(schedule::Wiring& wiring) override {
    using enum schedule::Need;
    wiring.consumes<schedule::TokenizedPrompt>("token-producer", kRequired);
    matches_ = wiring.consumes<PrefixMatch>(params_.matches, kRequired);
    load_ = wiring.consumes<InFlightLoad>(params_.load, kRequired);
    if (params_.use_encoder_cache) media_ = wiring.consumes<MediaMatch>(params_.media, kRequired);
    predictions_ = wiring.produces<LatencyPrediction>();
    tracked_ = wiring.request_slot<Tracked>();
  }

  Result<Progress> produce(RequestContext& context) const override {
    if (!predictor_ || !params_.predict_in_produce) return Progress::kDone;
    const auto features = describe(context);
    const auto latencies = context.arena.array<PredictedLatency>(features.size());
    LLMD_TRY_ASSIGN(const Progress progress, predictor_->predict(context, features, latencies));
    if (progress == Progress::kSuspended) return progress;
    const auto predictions = context.write(predictions_);
    const Slo slo = Slo::of(context.headers);
    for (size_t i = 0; i < predictions.size(); ++i)
      predictions[i] = compare(*context.candidates[i].endpoint, latencies[i], slo);
    return progress;
  }

  Status pre_request(RequestContext& context) const override {
    const double tpot = std::max(0.0, Slo::of(context.headers).tpot);
    context.slot(tracked_) = {.endpoint = &context.target(), .tpot = tpot};
    running_->add(context.target(), tpot);
    return {};
  }

  void on_end(RequestContext& context, schedule::EndCause, const request::Usage&) const override {
    auto& tracked = context.slot(tracked_);
    if (tracked.endpoint) running_->remove(*tracked.endpoint, tracked.tpot);
    tracked.endpoint = nullptr;
  }

  std::string dump_state() const override {
    return R"({"trackedRequests":)" + std::to_string(running_->tracked()) + "}";
  }

 private:
  struct Tracked {
    const fleet::Endpoint* endpoint = nullptr;
    double tpot = 0;
  };

  std::string_view role_of(const fleet::Endpoint& endpoint) const {
    if (params_.role_label.empty()) return {};
    const auto* role = endpoint.label(params_.role_label);
    return role ? std::string_view(*role) : std::string_view();
  }

  std::span<const LatencyFeatures> describe(RequestContext& context) const {
    const auto features = context.arena.array<LatencyFeatures>(context.candidates.size());
    const auto matches = context.read(matches_);
    const auto load = context.read(load_);
    const auto media = context.read(media_);
    const int64_t input = request_tokens(context);
    for (size_t i = 0; i < features.size(); ++i) {
      const auto& [endpoint, metrics] = context.candidates[i];
      features[i] = {.kv_cache_usage = std::clamp(metrics.kv_cache_usage, 0.0, 1.0),
                     .input_tokens = input,
                     .waiting_requests = metrics.waiting_queue_size,
                     .running_requests = metrics.running_requests_size,
                     .role = role_of(*endpoint)};
      if (!matches.empty() && matches[i].total_blocks > 0)
        features[i].prefix_share = std::clamp(
            matches[i].match_blocks / static_cast<double>(matches[i].total_blocks), 0.0, 1.0);
      if (!load.empty()) {
        features[i].running_requests = std::max<int64_t>(0, load[i].requests);
        features[i].prefill_tokens_in_flight = std::max<int64_t>(0, load[i].tokens);
      }
      if (!media.empty()) {
        features[i].encoder_items = media[i].total;
        features[i].encoder_matched = std::min(media[i].matched, media[i].total);
      }
    }
    return features;
  }

  /// With the objectives, and for the time per token also with those of the requests that run
  /// there already.
  LatencyPrediction compare(const fleet::Endpoint& endpoint, const PredictedLatency& latency,
                            const Slo& slo) const {
    const auto now = running_->on(endpoint);
    LatencyPrediction p{.present = true,
                        .ttft_valid = latency.ttft_ms < slo.ttft,
                        .tpot_valid = true,
                        .ttft_headroom = slo.ttft - latency.ttft_ms,
                        .tpot_headroom = 0,
                        .ttft = latency.ttft_ms,
                        .tpot = latency.tpot_ms,
                        .dispatched = now.requests};
    if (!params_.streaming || role_of(endpoint) == "prefill") return p;
    const double factor = params_.slo_buffer_factor;
    double budget = slo.tpot * factor;
    if (now.tpot_min > 0) budget = std::min(budget, now.tpot_min * factor);
    p.tpot_valid = latency.tpot_ms < budget;
    p.tpot_headroom = budget - latency.tpot_ms;
    return p;
  }

  const Params params_;
  const std::shared_ptr<LatencyPredictor> predictor_;
  const std::shared_ptr<RunningSlos> running_;
  schedule::Consumed<PrefixMatch> matches_;
  schedule::Consumed<InFlightLoad> load_;
  schedule::Consumed<MediaMatch> media_;
  schedule::Produced<LatencyPrediction> predictions_;
  schedule::RequestSlot<Tracked> tracked_;
};

}  // namespace

const plugin::Descriptor& predicted_latency_producer() {
  static const auto descriptor = plugin::describe<PredictedLatencyProducer>(
      {.type = "predicted-latency-producer",
       .kind = "producer",
       .summary = "Compares predicted latencies with the request's objectives. This build has no "
                  "predictor, so nothing is predicted and latency-scorer rates by cache, queue and "
                  "prefix.",
       .produces_by_default = {"LatencyPredictionInfoDataKey/predicted-latency-producer"}},
      table());
  return descriptor;
}

}  // namespace llmd::plugins
