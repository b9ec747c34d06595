#include "flow_scenarios.h"

#include "base/rng.h"

#include <fmt/format.h>

#include <cmath>

namespace llmd {
namespace {

std::array<FlowScenario::Run, 2> without_and_with() {
  return {{{"without", "without flow control", false}, {"with", "with flow control", true}}};
}

/// Requests of one length at random moments.
std::shared_ptr<const bench::Trace> steady(double rate, double duration_s, uint32_t input_tokens,
                                           uint32_t output_tokens, uint64_t seed) {
  auto trace = std::make_shared<bench::Trace>();
  Rng rng(seed);
  for (double at = 0; (at -= std::log1p(-rng.uniform()) / rate) < duration_s;)
    trace->push_back({.at = std::chrono::duration_cast<Nanos>(std::chrono::duration<double>(at)),
                      .input_tokens = input_tokens,
                      .output_tokens = output_tokens,
                      .pieces = {}});
  return trace;
}

}  // namespace

/// A server answers about 10.8 interactive requests a second, or 4.1 of the batch. Together these
/// ask for 1.55 times what both can do, and for 2.5 times that while globex has its burst.
FlowScenario tenants_and_batch() {
  return {.title = "A saturated fleet, with and without flow control",
          .caption = "two tenants (priority 10, one with a burst) and a batch (priority 0)",
          .servers = 2,
          .slots = 8,
          .prefill_per_token = "250us",
          .inter_token_latency = "20ms",
          .time_scale = 4,
          .duration_s = 96,
          .tenants = {"acme", "globex", "batch"},
          .loads =
              {{.tenant = 0,
                .fairness_id = "acme",
                .objective = "interactive",
                .rate = 4.3,
                .max_tokens = 64},
               {.tenant = 1,
                .fairness_id = "globex",
                .objective = "interactive",
                .rate = 7.5,
                .max_tokens = 64},
               {.tenant = 1,
                .fairness_id = "globex",
                .objective = "interactive",
                .rate = 21,
                .from = 0.33,
                .to = 0.58,
                .max_tokens = 64},
               {.tenant = 2, .fairness_id = "batch", .rate = 8.2, .from = 0.08, .max_tokens = 256}},
          .runs = without_and_with()};
}

/// With the latencies below, the trace of Azure's code service keeps 24 of 64 slots busy on average
/// and asks for more than twice what there is in its bursts.
Result<FlowScenario> replayed(const std::string& trace_file) {
  constexpr double kDenser = 12;
  LLMD_TRY_ASSIGN(const auto whole, bench::read_trace(trace_file));
  std::array<std::shared_ptr<bench::Trace>, 2> parts = {std::make_shared<bench::Trace>(),
                                                        std::make_shared<bench::Trace>()};
  for (size_t i = 0; i < whole.size(); ++i) parts[i % 2]->push_back(whole[i]);
  return FlowScenario{
      .title = "A recorded trace, with and without flow control",
      .caption = fmt::format("{} requests of a trace, {} times as dense, every other one a batch's",
                             whole.size(), kDenser),
      .servers = 8,
      .slots = 8,
      .prefill_per_token = "100us",
      .inter_token_latency = "20ms",
      .time_scale = 3,
      .duration_s = seconds(whole.back().at) / kDenser + 1,
      .tenants = {"interactive", "batch"},
      .loads = {{.tenant = 0,
                 .fairness_id = "interactive",
                 .objective = "interactive",
                 .trace = parts[0],
                 .speed = kDenser},
                {.tenant = 1, .fairness_id = "batch", .trace = parts[1], .speed = kDenser}},
      .runs = without_and_with()};
}

/// A request takes 1.8 s of a slot, or 5.7 s of the batch: the interactive ones need 27 of the 256
/// slots, the batch asks for 340.
FlowScenario beside_a_batch(uint64_t seed) {
  constexpr double kDuration = 40;
  constexpr uint32_t kPrompt = 2000;
  return {.title = "Interactive requests alone and beside a batch",
          .caption =
              "interactive requests (priority 10), and a batch (priority 0, ceiling 0.8) that asks "
              "for more than all there is",
          .servers = 8,
          .slots = 32,
          .prefill_per_token = "250us",
          .inter_token_latency = "40ms",
          .time_scale = 0.5,
          .duration_s = kDuration,
          .tenants = {"interactive", "batch"},
          .loads = {{.tenant = 0,
                     .fairness_id = "interactive",
                     .objective = "interactive",
                     .trace = steady(15, kDuration, kPrompt, 32, seed)},
                    {.tenant = 1,
                     .fairness_id = "batch",
                     .trace = steady(60, kDuration, kPrompt, 128, seed + 1)}},
          .runs = {{{"alone", "alone", true, 1}, {"beside", "beside a batch", true}}}};
}

}  // namespace llmd
