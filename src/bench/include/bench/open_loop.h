#pragma once

#include "base/clock.h"
#include "base/result.h"
#include "bench/blocking_client.h"
#include "bench/trace.h"

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace llmd::bench {

/// Streamed requests that arrive whatever the answers do, as many users' do: chats at random
/// moments, or the completions of a trace.
struct OpenLoopOptions {
  Target target;
  std::string model;
  std::vector<std::pair<std::string, std::string>> headers;  // of every request
  const Trace* trace = nullptr;  // what arrives and when, instead of chats at random moments
  double speed = 1;              // at which the trace is replayed
  double rate = 10;              // requests a second on average; the gaps are exponential
  Nanos start{0};                // before the first arrival
  Nanos duration = std::chrono::seconds(10);
  size_t families = 50;  // contexts that requests share; each request picks one at random
  size_t context_tokens = 500;
  int max_tokens = 32;                        // of an answer, at most
  size_t in_flight_max = 10000;               // an arrival beyond it is not sent, and counted
  Nanos timeout = std::chrono::seconds(120);  // of one request
  uint64_t seed = 1;
};

struct OpenLoopResult {
  int64_t sent = 0;
  int64_t ok = 0;
  int64_t refused = 0;  // a status other than 200
  int64_t broken = 0;   // connection failed, or the stream ended without "data: [DONE]"
  std::map<std::string, int64_t> why;  // of refused and broken ones: statuses, or what went wrong
  int64_t timed_out = 0;
  int64_t not_sent = 0;  // arrivals over in_flight_max
  int64_t output_tokens = 0;
  int64_t prompt_tokens = 0;   // as the answers report
  int64_t cached_tokens = 0;   // of these, those that were reused
  double seconds = 0;          // from the start to the last answer
  std::vector<double> sent_s;  // of requests that ended well, as the next ones: since the start
  std::vector<double> ttft_ms;
  std::vector<double> tpot_ms;  // mean time per output token after the first
  std::vector<double> e2e_ms;
};

/// Runs until every answer is there. Threading: the calling thread runs the event loop.
/// `on_second` hears the result so far once a second.
OpenLoopResult run_open_loop(const OpenLoopOptions& options,
                             const std::function<void(const OpenLoopResult&)>& on_second = {});

/// Several loads at the same time; the results are in their order.
std::vector<OpenLoopResult> run_open_loops(
    std::span<const OpenLoopOptions> loads,
    const std::function<void(std::span<const OpenLoopResult>)>& on_second = {});

/// The result as a table for a terminal.
std::string open_loop_table(const OpenLoopResult& result);

}  // namespace llmd::bench
