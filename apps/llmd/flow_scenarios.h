#pragma once

#include "base/result.h"
#include "bench/trace.h"

#include <array>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

/// What `llmd demo-flow` can play: loads on a simulated fleet. Times are model time.
namespace llmd {

/// Requests of one kind. The run lasts 1, so that `from` and `to` are parts of it.
struct FlowLoad {
  size_t tenant = 0;
  std::string_view fairness_id;
  std::string_view objective;  // "interactive" has priority 10; "": none, priority 0
  double rate = 0;             // requests a second
  double from = 0, to = 1;
  int max_tokens = 0;                         // of an answer
  std::shared_ptr<const bench::Trace> trace;  // set: what arrives and when, and how long it is
  double speed = 1;                           // of the trace
};

struct FlowScenario {
  std::string title, caption;
  int servers = 0;
  int slots = 0;  // of a server: requests that it runs at once
  std::string_view prefill_per_token, inter_token_latency;
  double time_scale = 1;   // seconds of model time in one second of the run
  double duration_s = 0;   // of arrivals
  double patience_s = 40;  // of clients
  double objective_ms = 2000;
  std::vector<std::string> tenants;
  std::vector<FlowLoad> loads;

  struct Run {
    std::string name, title;
    bool flow_control = true;
    size_t loads = SIZE_MAX;  // the first so many only
  };
  std::array<Run, 2> runs;
};

/// Two tenants, one with a burst, and a batch on two servers, with and without flow control.
FlowScenario tenants_and_batch();

/// A recorded trace on eight servers, twelve times as dense, with and without flow control: every
/// other request is a batch's.
Result<FlowScenario> replayed(const std::string& trace_file);

/// Interactive requests alone, and beside a batch that asks for more than all there is: eight
/// servers, 32 slots each, fixed lengths.
FlowScenario beside_a_batch(uint64_t seed);

}  // namespace llmd
