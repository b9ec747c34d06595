#include "latency_probe.h"
#include "media_match.h"
#include "request_tokens.h"
#include "running_slos.h"
#include "slo.h"

#include "plugin/ignored_param.h"
#include "plugin/nanoseconds_param.h"
#include "plugin/registry.h"
#include "predict/latency_predictor.h"
#include "schedule/attributes.h"
#include "schedule/moved_hook.h"
#include "schedule/wiring.h"

#include <algorithm>
#include <cmath>

namespace llmd::plugins {
namespace {

using predict::LatencyFeatures;
using predict::LatencyPredictorSlot;
using predict::PredictedLatency;
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
};

const plugin::Params<Params>& table() {
  static const plugin::Params<Params> params = {
      plugin::field("sloBufferFactor", &Params::slo_buffer_factor, "",
                    "Factor on the objective of the time per token.")
          .positive(),
      plugin::nanoseconds(
          "contextTTL", &Params::context_ttl,
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
      plugin::ignored<Params, double>("samplingMean"),
      plugin::ignored<Params, int64_t>("maxDecodeTokenSamplesForPrediction"),
  };
  return params;
}

class PredictedLatencyProducer final : public schedule::Producer,
                                       public schedule::PreRequest,
                                       public schedule::ResponseHook,
                                       public schedule::MovedHook {
 public:
  PredictedLatencyProducer(Params p, const plugin::Context& context)
      : params_(std::move(p)),
        predictor_(predictor_of(context.state)),
        probe_(context.state.get<LatencyProbe>(context.name,
                                               [&] { return new LatencyProbe(context.metrics); })),
        running_(context.state.get<RunningSlos>(context.name, [] { return new RunningSlos; })) {}

  void wire(schedule::Wiring& wiring) override {
    using enum schedule::Need;
    wiring.consumes<schedule::TokenizedPrompt>("token-producer", kRequired);
    matches_ = wiring.consumes<PrefixMatch>(params_.matches, kRequired);
    load_ = wiring.consumes<InFlightLoad>(params_.load, kRequired);
    if (params_.use_encoder_cache) media_ = wiring.consumes<MediaMatch>(params_.media, kRequired);
    predictions_ = wiring.produces<LatencyPrediction>();
    asked_ = wiring.request_slot<Asked>();
    tracked_ = wiring.request_slot<Tracked>();
    prefill_ = wiring.prefill_profile();
  }

  Result<Progress> produce(RequestContext& context) const override {
    if (!predictor_ || !params_.predict_in_produce) return Progress::kDone;
    auto& asked = context.slot(asked_);
    if (asked.ticket == 0) {
      asked.features = describe(context);
      asked.at = context.clock.now();
    }
    const auto latencies = context.arena.array<PredictedLatency>(asked.features.size());
    LLMD_TRY_ASSIGN(const Progress progress,
                    predictor_->predict(context, asked.ticket, asked.features, latencies));
    if (progress == Progress::kSuspended) return progress;
    probe_->predicted(*this, context, context.clock.now() - asked.at);
    const auto predictions = context.write(predictions_);
    const Slo slo = Slo::of(context.headers);
    for (size_t i = 0; i < predictions.size(); ++i)
      predictions[i] = compare(*context.candidates[i].endpoint, latencies[i], slo);
    return progress;
  }

  Status pre_request(RequestContext& context) const override {
    const Slo slo = Slo::of(context.headers);
    auto& tracked = context.slot(tracked_);
    tracked = {.endpoint = &context.target(), .slo = slo, .sent = context.clock.now()};
    tracked.slo.tpot = std::max(0.0, slo.tpot);
    running_->add(context.target(), tracked.slo.tpot);
    if (!predictor_) return {};
    auto features = context.slot(asked_).features;
    if (features.empty()) features = describe(context);
    const uint32_t target = context.results[context.primary].targets[0];
    const bool apart =
        prefill_ < context.results.size() && !context.results[prefill_].targets.empty();
    tracked.decode = features[target];
    tracked.prefill = features[apart ? context.results[prefill_].targets[0] : target];
    if (const auto predictions = context.read(predictions_);
        !predictions.empty() && predictions[target].present)
      probe_->chosen(*this, context, predictions[target]);
    return {};
  }

  void on_moved(RequestContext& context) const override {
    auto& tracked = context.slot(tracked_);
    running_->remove(*tracked.endpoint, tracked.slo.tpot);
    tracked.endpoint = &context.target();
    tracked.moved = true;
    running_->add(*tracked.endpoint, tracked.slo.tpot);
  }

  void on_first_chunk(RequestContext& context) const override {
    auto& tracked = context.slot(tracked_);
    tracked.first_chunk = context.clock.now();
    if (predictor_ && params_.streaming && !tracked.moved)
      predictor_->learn(tracked.prefill, {.ttft_ms = millis(tracked.first_chunk - tracked.sent)},
                        context.clock.wall());
  }

  void on_end(RequestContext& context, schedule::EndCause cause,
              const request::Usage& usage) const override {
    auto& tracked = context.slot(tracked_);
    if (!tracked.endpoint) return;
    running_->remove(*tracked.endpoint, tracked.slo.tpot);
    tracked.endpoint = nullptr;
    if (predictor_ && cause == schedule::EndCause::kNatural && !tracked.moved)
      learn(context, tracked, usage);
  }

  std::string dump_state() const override {
    return R"({"trackedRequests":)" + std::to_string(running_->tracked()) + "}";
  }

 private:
  struct Asked {
    uint64_t ticket = 0;
    TimePoint at{};
    std::span<const LatencyFeatures> features;  // by candidate
  };
  struct Tracked {
    const fleet::Endpoint* endpoint = nullptr;
    Slo slo;
    TimePoint sent{}, first_chunk{};
    bool moved = false;               // its times tell nothing: they include the chosen one's
    LatencyFeatures prefill, decode;  // of where the prompt and where the answer is computed
  };

  static std::shared_ptr<predict::LatencyPredictor> predictor_of(plugin::StateStore& state) {
    const auto slot = state.get<LatencyPredictorSlot>(LatencyPredictorSlot::kName,
                                                      [] { return new LatencyPredictorSlot; });
    return slot->get ? slot->get() : nullptr;
  }

  /// What an answer that has come to its end took. Without streaming its only time is the whole.
  void learn(const RequestContext& context, Tracked& tracked, const request::Usage& usage) const {
    const TimePoint now = context.clock.now();
    const TimePoint first = params_.streaming ? tracked.first_chunk : now;
    if (!params_.streaming)
      predictor_->learn(tracked.prefill, {.ttft_ms = millis(now - tracked.sent)},
                        context.clock.wall());
    double tpot = 0;
    if (params_.streaming && usage.completion_tokens > 1) {
      tpot = millis(now - first) / static_cast<double>(usage.completion_tokens - 1);
      tracked.decode.prefix_share = 0;
      predictor_->learn(tracked.decode, {.tpot_ms = tpot}, context.clock.wall());
    }
    const double ttft = millis(first - context.received);
    probe_->took(*this, context, ttft, tpot);
    const auto& slo = tracked.slo;
    if (slo.ttft > 0) probe_->judged(*this, context, "ttft", ttft > slo.ttft);
    if (slo.tpot > 0) probe_->judged(*this, context, "tpot", tpot > slo.tpot);
  }

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
      const auto& metrics = context.candidates[i].metrics;
      features[i] = {.kv_cache_usage = std::clamp(metrics.kv_cache_usage, 0.0, 1.0),
                     .input_tokens = input,
                     .waiting_requests = metrics.waiting_queue_size,
                     .running_requests = metrics.running_requests_size,
                     .role = role_of(*context.candidates[i].endpoint)};
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
  const std::shared_ptr<predict::LatencyPredictor> predictor_;  // null: nothing is predicted
  const std::shared_ptr<LatencyProbe> probe_;
  const std::shared_ptr<RunningSlos> running_;
  schedule::Consumed<PrefixMatch> matches_;
  schedule::Consumed<InFlightLoad> load_;
  schedule::Consumed<MediaMatch> media_;
  schedule::Produced<LatencyPrediction> predictions_;
  schedule::RequestSlot<Asked> asked_;
  schedule::RequestSlot<Tracked> tracked_;
  uint16_t prefill_ = UINT16_MAX;
};

}  // namespace

const plugin::Descriptor& predicted_latency_producer() {
  static const auto descriptor = plugin::describe<PredictedLatencyProducer>(
      {.type = "predicted-latency-producer",
       .kind = "producer",
       .summary = "Asks a prediction service how long each endpoint would take, compares that with "
                  "the request's objectives, and tells a training service how long it took. The "
                  "services are named by the environment (docs/scheduling.md). What is not "
                  "predicted in time leaves latency-scorer to rate by cache, queue and prefix.",
       .produces_by_default = {"LatencyPredictionInfoDataKey/predicted-latency-producer"}},
      table());
  return descriptor;
}

}  // namespace llmd::plugins
