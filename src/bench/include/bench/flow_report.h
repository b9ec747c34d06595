#pragma once

#include "bench/open_loop.h"

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace llmd::bench {

/// What one tenant, or the batch traffic, saw in a run. Times as measured.
struct TenantRun {
  std::string name;
  OpenLoopResult result;
};

struct FlowRun {
  std::string name;   // short: "with"
  std::string title;  // "with flow control"
  std::vector<TenantRun> tenants;
};

/// Loads under two circumstances: the same tenants in the same order.
struct FlowExperiment {
  std::string title;
  std::array<FlowRun, 2> runs;
  double time_scale = 1;       // seconds of model time in one second of a run
  double objective_ms = 2000;  // of the time to the first token, model time
};

/// The figures of a tenant, in model time.
struct TenantFigures {
  std::string name;
  int64_t requests = 0;
  int64_t answered = 0;
  int64_t refused = 0;
  int64_t gave_up = 0;     // the client waited too long, or the answer broke off
  double ttft_p50_ms = 0;  // of answered requests, as the next one
  double ttft_p99_ms = 0;
  double e2e_p99_ms = 0;
  double in_time = 0;       // fraction of all requests whose first token met the objective
  double tokens_per_s = 0;  // of output
};
std::vector<TenantFigures> summarize(const FlowRun& run, const FlowExperiment& experiment);

/// Adds `more` to what a tenant saw: of a load that it sent beside another.
void merge(OpenLoopResult& into, const OpenLoopResult& more);

/// {run: {tenant: {...}}, other run: {...}, "time_scale": n, "objective_ms": n}
std::string flow_json(const FlowExperiment& experiment);

/// Both runs beside each other, for a terminal, and how the first tenant fared in the second one
/// compared with the first.
std::string flow_table(const FlowExperiment& experiment);

/// The experiment as one SVG picture: the time to the first token of every answered request by when
/// it was sent, both runs below each other, and bars of what was in time. `caption`: how it was
/// run.
std::string flow_picture(const FlowExperiment& experiment, std::string_view caption);

}  // namespace llmd::bench
