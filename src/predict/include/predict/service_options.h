#pragma once

#include "base/clock.h"
#include "fleet/endpoint.h"

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace llmd::predict {

/// Where the prediction service is, and how much is asked at once (spec 02 §11.6).
struct ServiceOptions {
  std::vector<fleet::EndpointSpec> predictors;  // each call goes to any of them
  fleet::EndpointSpec trainer;
  Nanos timeout = std::chrono::seconds(10);        // of a call
  Nanos window = std::chrono::milliseconds(1);     // in which requests are asked for together
  size_t rows_max = 100;                           // of a call
  size_t calls_max = 36;                           // under way at a time
  size_t samples_max = 1000;                       // kept for the next flush
  Nanos flush_interval = std::chrono::seconds(1);  // of what was learnt
  std::vector<std::string> warnings;               // about values that are not taken
};

using Environment = std::function<std::optional<std::string>(const char* name)>;

/// Reads PREDICTION_SERVER_URL (a comma list), TRAINING_SERVER_URL and LATENCY_{MAX_SAMPLE_SIZE,
/// FLUSH_INTERVAL_SEC,HTTP_TIMEOUT_SEC,MAX_BULK_SIZE,COALESCE_WINDOW_MS,MAX_COALESCED_ROWS,
/// MAX_CONCURRENT_DISPATCHES}. What is not valid keeps its default, with a warning.
ServiceOptions read_service_options(const Environment& environment);

}  // namespace llmd::predict
