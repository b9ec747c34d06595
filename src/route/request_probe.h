#pragma once

#include "base/result.h"
#include "metric/registry.h"
#include "request/objects.h"
#include "route/retry.h"

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace llmd::route {

/// The labels of one request, after the cardinality guard.
struct RequestLabels {
  std::string_view model;
  std::string_view target_model;
  std::string_view fairness_id;
  int32_t priority = 0;
};

/// Handles for one combination of labels. Made at the first request with it, kept for the life of
/// the loop.
struct RequestSeries {
  metric::Counter requests;
  metric::Gauge running;
  metric::Histogram duration, request_bytes, response_bytes;
  metric::Histogram input_tokens, output_tokens, cached_tokens;
  metric::Histogram ntpot, tpot, itl;
  metric::Histogram ttft_whole, ttft_streaming;
};

/// Owns the request metrics of spec 04 §2.1 and §2.3 and writes them by the rules of §3.
/// Threading: any; series() takes a lock, so loops cache its result (RequestSeriesCache).
class RequestProbe {
 public:
  explicit RequestProbe(metric::Registry& registry);

  /// Handles for these labels; names beyond the guard's limit are reported as "other".
  RequestSeries series(const RequestLabels& labels);
  void count_error(const RequestLabels& labels, Code code);
  metric::Counter attempts(bool success, std::string_view target_model, std::string_view endpoint,
                           std::string_view ns, std::string_view port);
  metric::Counter rewrites(std::string_view rewrite, std::string_view model,
                           std::string_view target_model);
  /// Names that operators configure never collapse to "other".
  void admit_models(const request::ModelRewrite& rewrite);

  metric::Histogram request_processing;
  metric::Histogram response_processing;
  metric::Histogram scheduling;
  metric::Counter producers_failed;  // decisions made with less than the configured inputs
  metric::Counter stale_resumes;     // results that came after their request had moved on
  /// By UpstreamFailure: failed tries, and those that another try followed.
  std::array<metric::Counter, kUpstreamFailures> upstream_failures, retries;
  metric::Counter retries_exhausted;  // requests that ended with their last permitted try

 private:
  struct Families;
  std::shared_ptr<Families> families_;
  std::shared_ptr<metric::LabelGuard> models_;
  std::shared_ptr<metric::LabelGuard> fairness_;
};

/// One loop's memory of the handles it used. Bounded: it starts over when full.
/// Threading: one loop. Cost: one hash of the label text.
class RequestSeriesCache {
 public:
  explicit RequestSeriesCache(RequestProbe& probe);
  ~RequestSeriesCache();
  RequestSeries& get(const RequestLabels& labels);
  metric::Counter attempt(std::string_view target_model, const std::string& endpoint_name,
                          const std::string& ns, uint16_t port);

 private:
  struct Maps;
  RequestProbe& probe_;
  std::unique_ptr<Maps> maps_;
};

}  // namespace llmd::route
