#pragma once

#include "bench/engine_counters.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace llmd::bench {

/// What was measured on the second request of one pair. Times in model time.
struct SecondRequest {
  int round = 0;
  bool returned = false;  // served by the replica that served the first request
  double ttft_ms = 0;
  EngineCounters engine;  // what this request added to the counters of all engines
};

/// The five figures of one policy, over all its second requests.
struct PolicyFigures {
  int64_t requests = 0;
  int64_t returned = 0;
  double return_rate = 0;     // fraction
  double token_hit_rate = 0;  // fraction; sums before the ratio
  double ttft_p50_ms = 0;
  double ttft_p95_ms = 0;
  double prefill_tokens_mean = 0;
};
PolicyFigures summarize(std::span<const SecondRequest> requests);

/// Both policies of one run.
struct Experiment {
  std::vector<SecondRequest> random;
  std::vector<SecondRequest> prefix;
  double time_scale = 1;  // seconds of model time in one second of the run
};

/// {"random": {...}, "prefix": {...}, "time_scale": n}
std::string report_json(const Experiment& experiment);

/// The measured table beside the published one, for a terminal.
std::string report_table(const Experiment& experiment);

/// What the experiment's authors published for the same work.
extern const PolicyFigures kPublishedRandom;
extern const PolicyFigures kPublishedPrefix;

}  // namespace llmd::bench
