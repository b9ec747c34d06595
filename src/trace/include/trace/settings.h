#pragma once

#include "base/clock.h"
#include "base/result.h"
#include "tls/context.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace llmd::trace {

using TextPairs = std::vector<std::pair<std::string, std::string>>;

/// Where spans go and which requests are sampled.
struct Settings {
  std::string host;  // of the collector; IPv6 without brackets
  uint16_t port = 4318;
  std::string path = "/v1/traces";
  std::optional<tls::ClientOptions> tls;  // none: plain HTTP
  TextPairs headers;     // sent with every export; may hold credentials: never logged
  TextPairs attributes;  // of the resource, service.name among them
  double ratio = 0.1;    // of requests whose caller has not decided
  Nanos timeout = std::chrono::seconds(10);
  Nanos interval = std::chrono::seconds(5);
  size_t batch_max = 512;   // spans that start an export before the interval is over
  size_t queue_max = 2048;  // spans; more are dropped and counted
  std::vector<std::string> warnings;
};

using Environment = std::function<std::optional<std::string>(const char* name)>;
Environment process_environment();

/// Reads OTEL_TRACES_EXPORTER, OTEL_EXPORTER_OTLP_[TRACES_]{ENDPOINT,HEADERS,TIMEOUT,PROTOCOL,
/// CERTIFICATE,CLIENT_CERTIFICATE,CLIENT_KEY},
/// OTEL_TRACES_SAMPLER[_ARG], OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES and
/// OTEL_BSP_{SCHEDULE_DELAY,MAX_EXPORT_BATCH_SIZE,MAX_QUEUE_SIZE}. Nothing when spans are not
/// wanted: OTEL_SDK_DISABLED, exporter `none`, or neither an exporter nor an endpoint is named.
/// Errors name the variable and what is wrong with its value; values of headers are not repeated.
Result<std::optional<Settings>> read_settings(const Environment& environment,
                                              std::string_view service, std::string_view version);

}  // namespace llmd::trace
