#include "request_probe.h"

#include "base/keyed_hash.h"
#include "metric/buckets.h"

#include <boost/unordered/unordered_flat_map.hpp>
#include <fmt/format.h>

namespace llmd::route {
namespace {

using metric::Definition;
using metric::Kind;
using metric::Twin;

constexpr size_t kLabelValuesMax = 1000;
constexpr size_t kCachedSeriesMax = 4096;

const std::vector<std::string_view> kRequestLabels = {"model_name", "target_model_name",
                                                      "fairness_id", "priority"};

std::vector<std::string_view> request_labels_and(std::string_view extra) {
  auto labels = kRequestLabels;
  labels.push_back(extra);
  return labels;
}

/// The deprecated name of a request family: inference_objective_NAME with model labels and `more`.
Twin objective_twin(std::string_view name,
                    std::vector<std::pair<std::string_view, std::string_view>> more = {}) {
  more.insert(more.begin(),
              {{"model_name", "model_name"}, {"target_model_name", "target_model_name"}});
  return {name, std::move(more)};
}

}  // namespace

struct RequestProbe::Families {
  metric::Family& total;
  metric::Family& errors;
  metric::Family& running;
  metric::Family& duration;
  metric::Family& request_bytes;
  metric::Family& response_bytes;
  metric::Family& input_tokens;
  metric::Family& output_tokens;
  metric::Family& cached_tokens;
  metric::Family& ntpot;
  metric::Family& ttft;
  metric::Family& tpot;
  metric::Family& itl;
  metric::Family& attempts;
  metric::Family& rewrites;

  explicit Families(metric::Registry& r)
      : total(r.family(
            {"llm_d_epp_request_total",
             Kind::kCounter,
             "Requests scheduled.",
             kRequestLabels,
             {},
             {objective_twin("inference_objective_request_total", {{"priority", "priority"}})}})),
        errors(r.family({"llm_d_epp_request_error_total",
                         Kind::kCounter,
                         "Requests that ended with an error.",
                         request_labels_and("error_code"),
                         {},
                         {objective_twin("inference_objective_request_error_total",
                                         {{"error_code", "error_code"}})}})),
        running(
            r.family({"llm_d_epp_request_running",
                      Kind::kGauge,
                      "Requests sent to an endpoint and not finished.",
                      kRequestLabels,
                      {},
                      {{"inference_objective_running_requests", {{"model_name", "model_name"}}}}})),
        duration(histogram(r, "request_duration_seconds",
                           "Time from the request's head to the end of its answer.",
                           metric::buckets::kGen, "request_duration_seconds")),
        request_bytes(histogram(r, "request_size_bytes", "Size of request bodies.",
                                metric::buckets::kSz, "request_sizes")),
        response_bytes(histogram(r, "response_size_bytes", "Size of response bodies.",
                                 metric::buckets::kRsz, "response_sizes")),
        input_tokens(histogram(r, "request_input_tokens",
                               "Prompt tokens, as the model server reports them.",
                               metric::buckets::kTok, "input_tokens")),
        output_tokens(histogram(r, "request_output_tokens",
                                "Generated tokens, as the model server reports them.",
                                metric::buckets::kOut, "output_tokens")),
        cached_tokens(histogram(r, "request_cached_tokens",
                                "Prompt tokens served from the KV cache.", metric::buckets::kTok,
                                "prompt_cached_tokens")),
        ntpot(histogram(r, "request_ntpot_seconds", "Request duration over generated tokens.",
                        metric::buckets::kNtpot, "normalized_time_per_output_token_seconds")),
        ttft(r.family({"llm_d_epp_request_ttft_seconds",
                       Kind::kHistogram,
                       "Time from the request's head to the first byte of the answer's body.",
                       request_labels_and("streaming"),
                       metric::buckets::kTtft,
                       {}})),
        tpot(r.family({"llm_d_epp_request_streaming_tpot_seconds",
                       Kind::kHistogram,
                       "Time per output token after the first, streamed answers.",
                       kRequestLabels,
                       metric::buckets::kTpot,
                       {}})),
        itl(r.family({"llm_d_epp_request_streaming_itl_seconds",
                      Kind::kHistogram,
                      "Gap between consecutive chunks of a streamed answer.",
                      kRequestLabels,
                      metric::buckets::kItl,
                      {}})),
        attempts(r.family({"llm_d_epp_scheduler_attempts_total",
                           Kind::kCounter,
                           "Scheduling attempts.",
                           {"status", "target_model_name", "endpoint_name", "namespace", "port"},
                           {},
                           {{"inference_extension_scheduler_attempts_total",
                             {{"status", "status"},
                              {"target_model_name", "target_model_name"},
                              {"pod_name", "endpoint_name"},
                              {"namespace", "namespace"},
                              {"port", "port"}}}}})),
        rewrites(r.family({"llm_d_epp_model_rewrite_decisions_total",
                           Kind::kCounter,
                           "Requests whose model an InferenceModelRewrite chose.",
                           {"model_rewrite_name", "model_name", "target_model"},
                           {},
                           {{"inference_extension_model_rewrite_decisions_total",
                             {{"model_rewrite_name", "model_rewrite_name"},
                              {"model_name", "model_name"},
                              {"target_model", "target_model"}}}}})) {}

  /// llm_d_epp_NAME over the request labels, with the twin inference_objective_TWIN.
  static metric::Family& histogram(metric::Registry& r, std::string_view name,
                                   std::string_view help, std::span<const double> buckets,
                                   std::string_view twin) {
    const std::string canonical = fmt::format("llm_d_epp_{}", name);
    const std::string deprecated = fmt::format("inference_objective_{}", twin);
    return r.family(
        {canonical, Kind::kHistogram, help, kRequestLabels, buckets, {objective_twin(deprecated)}});
  }
};

namespace {

metric::Histogram plain_histogram(metric::Registry& r, std::string_view name, std::string_view help,
                                  std::span<const double> buckets, std::vector<Twin> twins = {}) {
  return r.family({name, Kind::kHistogram, help, {}, buckets, std::move(twins)}).histogram({});
}

std::array<metric::Counter, kUpstreamFailures> by_failure(metric::Registry& r,
                                                          std::string_view name,
                                                          std::string_view help) {
  auto& family = r.family({name, Kind::kCounter, help, {"cause"}, {}, {}});
  std::array<metric::Counter, kUpstreamFailures> counters;
  for (size_t i = 0; i < counters.size(); ++i)
    counters[i] = family.counter(
        std::array<std::string_view, 1>{failure_name(static_cast<UpstreamFailure>(i))});
  return counters;
}

}  // namespace

RequestProbe::RequestProbe(metric::Registry& r)
    : request_processing(plain_histogram(r, "llm_d_epp_request_processing_duration_seconds",
                                         "Time from the request's head to its decision or refusal.",
                                         metric::buckets::kReqProc)),
      response_processing(
          plain_histogram(r, "llm_d_epp_response_processing_duration_seconds",
                          "Time spent on a response: the sum over its chunks when streamed.",
                          metric::buckets::kRespProc)),
      scheduling(plain_histogram(r, "llm_d_epp_scheduler_e2e_duration_seconds",
                                 "Time of one scheduling cycle.", metric::buckets::kFast,
                                 {{"inference_extension_scheduler_e2e_duration_seconds", {}}})),
      producers_failed(r.family({"llmd_degraded_decisions_total",
                                 Kind::kCounter,
                                 "Decisions made although a producer failed or was late.",
                                 {},
                                 {},
                                 {}})
                           .counter({})),
      stale_resumes(r.family({"llmd_stale_resumes_total",
                              Kind::kCounter,
                              "Results discarded because their request had moved on.",
                              {},
                              {},
                              {}})
                        .counter({})),
      upstream_failures(by_failure(r, "llmd_upstream_failures_total",
                                   "Requests that an endpoint failed, tries counted one by one.")),
      retries(
          by_failure(r, "llmd_retries_total", "Requests sent once more, by what failed before.")),
      retries_exhausted(r.family({"llmd_retries_exhausted_total",
                                  Kind::kCounter,
                                  "Requests that failed after more than one try.",
                                  {},
                                  {},
                                  {}})
                            .counter({})),
      families_(std::make_shared<Families>(r)),
      models_(std::make_shared<metric::LabelGuard>(kLabelValuesMax)),
      fairness_(std::make_shared<metric::LabelGuard>(kLabelValuesMax)) {}

RequestSeries RequestProbe::series(const RequestLabels& l) {
  auto& f = *families_;
  const auto priority = std::to_string(l.priority);
  const std::array<std::string_view, 5> values = {
      models_->admit(l.model), models_->admit(l.target_model), fairness_->admit(l.fairness_id),
      priority, "false"};
  auto streaming = values;
  streaming[4] = "true";
  const std::span<const std::string_view> base(values.data(), 4);
  return {
      .requests = f.total.counter(base),
      .running = f.running.gauge(base),
      .duration = f.duration.histogram(base),
      .request_bytes = f.request_bytes.histogram(base),
      .response_bytes = f.response_bytes.histogram(base),
      .input_tokens = f.input_tokens.histogram(base),
      .output_tokens = f.output_tokens.histogram(base),
      .cached_tokens = f.cached_tokens.histogram(base),
      .ntpot = f.ntpot.histogram(base),
      .tpot = f.tpot.histogram(base),
      .itl = f.itl.histogram(base),
      .ttft_whole = f.ttft.histogram(values),
      .ttft_streaming = f.ttft.histogram(streaming),
  };
}

void RequestProbe::count_error(const RequestLabels& l, Code code) {
  const auto priority = std::to_string(l.priority);
  const std::array<std::string_view, 5> values = {
      models_->admit(l.model), models_->admit(l.target_model), fairness_->admit(l.fairness_id),
      priority, code_name(code)};
  families_->errors.counter(values).add();
}

metric::Counter RequestProbe::attempts(bool success, std::string_view target_model,
                                       std::string_view endpoint, std::string_view ns,
                                       std::string_view port) {
  const std::array<std::string_view, 5> values = {success ? "success" : "failure",
                                                  models_->admit(target_model), endpoint, ns, port};
  return families_->attempts.counter(values);
}

metric::Counter RequestProbe::rewrites(std::string_view rewrite, std::string_view model,
                                       std::string_view target_model) {
  const std::array<std::string_view, 3> values = {rewrite, models_->admit(model),
                                                  models_->admit(target_model)};
  return families_->rewrites.counter(values);
}

void RequestProbe::admit_models(const request::ModelRewrite& rewrite) {
  for (const auto& rule : rewrite.rules) {
    for (const auto& model : rule.models) models_->pin(model);
    for (const auto& target : rule.targets) models_->pin(target.model);
  }
}

struct RequestSeriesCache::Maps {
  std::string key;
  boost::unordered_flat_map<std::string, RequestSeries, KeyedHash> series;
  boost::unordered_flat_map<std::string, metric::Counter, KeyedHash> attempts;
};

RequestSeriesCache::RequestSeriesCache(RequestProbe& probe)
    : probe_(probe), maps_(std::make_unique<Maps>()) {}
RequestSeriesCache::~RequestSeriesCache() = default;

RequestSeries& RequestSeriesCache::get(const RequestLabels& l) {
  auto& key = maps_->key;
  key.clear();
  for (const auto part : {l.model, l.target_model, l.fairness_id}) key.append(part).push_back('\0');
  key.append(reinterpret_cast<const char*>(&l.priority), sizeof l.priority);
  auto& map = maps_->series;
  if (const auto it = map.find(key); it != map.end()) return it->second;
  if (map.size() >= kCachedSeriesMax) map.clear();
  return map.emplace(key, probe_.series(l)).first->second;
}

metric::Counter RequestSeriesCache::attempt(std::string_view target_model,
                                            const std::string& endpoint, const std::string& ns,
                                            uint16_t port) {
  auto& key = maps_->key;
  key.assign(target_model).push_back('\0');
  key.append(endpoint).push_back('\0');
  key.append(ns).append(reinterpret_cast<const char*>(&port), sizeof port);
  auto& map = maps_->attempts;
  if (const auto it = map.find(key); it != map.end()) return it->second;
  if (map.size() >= kCachedSeriesMax) map.clear();
  return map.emplace(key, probe_.attempts(true, target_model, endpoint, ns, std::to_string(port)))
      .first->second;
}

}  // namespace llmd::route
