#include "base/check.h"
#include "base/counted_heap.h"
#include "plugin/registry.h"
#include "producers/testing.h"
#include "schedule/decision_history.h"
#include "schedule/pipeline.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

/// What one decision costs: 100 endpoints (or as told), four scorers, a prompt of 100 blocks given
/// as token ids. Counted are producing (hashing, look-up, load), scheduling, the pre-request hooks
/// and the end of the response; not parsing and not I/O. Those named …_kept also take notes and add
/// them to a history, as serving processes do for `llmd explain`.

namespace llmd::plugins {

const plugin::Descriptor& single_profile_handler();
const plugin::Descriptor& queue_scorer();
const plugin::Descriptor& kv_cache_utilization_scorer();
const plugin::Descriptor& prefix_cache_scorer();
const plugin::Descriptor& token_load_scorer();
const plugin::Descriptor& min_cost_scorer();
const plugin::Descriptor& max_score_picker();
const plugin::Descriptor& approx_prefix_cache_producer();
const plugin::Descriptor& inflight_load_producer();

namespace {

constexpr size_t kKept = 512;       // decisions, the default of serving processes
constexpr uint32_t kTokens = 6400;  // 100 blocks of 64

using Scorers = std::vector<std::pair<const plugin::Descriptor*, double>>;

class Decider {
 public:
  /// `kept`: decisions that a history keeps; 0: none is, and no notes are taken.
  Decider(size_t endpoints, const Scorers& scorers, size_t kept) : harness(endpoints) {
    if (kept > 0) history_.emplace(kept);
    add_producer(approx_prefix_cache_producer());
    add_producer(inflight_load_producer());
    auto& profile = pipeline_.profiles.emplace_back();
    profile.name = "default";
    for (const auto& [descriptor, weight] : scorers) {
      auto& scorer = harness.make<schedule::Scorer>(*descriptor);
      profile.scorers.push_back({{&scorer, {}}, weight});
      add_hooks(scorer);
    }
    profile.picker.plugin = &harness.make<schedule::Picker>(max_score_picker());
    pipeline_.handler.plugin = &harness.make<schedule::ProfileHandler>(single_profile_handler());
    pipeline_.outline = schedule::outline_of(pipeline_);
    harness.context.request_id = "6f1c3c1e-8c1b-4c56-9d0e-7f6d3f5b2a10";
    pipeline_.columns = harness.wiring.columns();
    pipeline_.slots = harness.wiring.slots();
    // Equally loaded, so that only the prefix and the rotation decide.
    for (size_t i = 0; i < endpoints; ++i) {
      harness.join(i);
      harness.metrics[i].waiting_queue_size = 3;
      harness.metrics[i].kv_cache_usage = 0.25;
    }
  }

  /// Prompt number n differs from all others from its first block on.
  uint32_t decide(testing::TokenRequest& request, uint32_t n) {
    auto& context = harness.context;
    request.ids(0)[0] = n;
    harness.arena.reset();
    if (history_) context.notes = harness.arena.make<schedule::DecisionNotes>();
    schedule::prepare(context, pipeline_);
    const size_t endpoints = harness.endpoints.size();
    context.candidates = harness.arena.room<schedule::Candidate>(endpoints);
    for (size_t i = 0; i < endpoints; ++i)
      context.candidates[i] = {harness.endpoints[i].get(), harness.metrics[i]};
    for (const auto& step : pipeline_.producers) CHECK(step.plugin->produce(context));
    if (history_) context.notes->lap(schedule::Stage::kProduce);
    CHECK(schedule::run_scheduler(context, pipeline_));
    if (history_) context.notes->lap(schedule::Stage::kSchedule);
    for (const auto& step : pipeline_.pre_request) CHECK(step.plugin->pre_request(context));
    if (history_)
      history_->add(context, &pipeline_,
                    {.target = context.candidates[context.results[0].targets[0]].endpoint});
    for (const auto& step : pipeline_.response) {
      step.plugin->on_first_chunk(context);
      step.plugin->on_end(context, schedule::EndCause::kNatural, {});
    }
    return context.results[0].targets[0];
  }

  schedule::testing::Harness harness;

 private:
  void add_producer(const plugin::Descriptor& descriptor) {
    auto& producer = harness.make<schedule::Producer>(descriptor);
    pipeline_.producers.push_back({&producer, {}});
    add_hooks(producer);
  }
  void add_hooks(const plugin::Plugin& plugin) {
    if (auto* hook = dynamic_cast<const schedule::PreRequest*>(&plugin))
      pipeline_.pre_request.push_back({hook, {}});
    if (auto* hook = dynamic_cast<const schedule::ResponseHook*>(&plugin))
      pipeline_.response.push_back({hook, {}});
  }

  schedule::Pipeline pipeline_;
  std::optional<schedule::DecisionHistory> history_;
};

/// Decides prompts 0 … prompts - 1 once, checks that each goes back to where it was, and times
/// further rounds in random order.
void decide(benchmark::State& state, size_t endpoints, uint32_t prompts, const Scorers& scorers,
            size_t kept = 0) {
  Decider decider(endpoints, scorers, kept);
  testing::TokenRequest request(decider.harness, {kTokens});
  std::vector<uint32_t> first(prompts);
  for (uint32_t n = 0; n < prompts; ++n) first[n] = decider.decide(request, n);
  for (uint32_t n = 1; n < std::min<size_t>(prompts, endpoints); ++n)
    CHECK(first[n] != first[n - 1]);
  for (uint32_t n = 0; n < prompts; n += 7) CHECK(decider.decide(request, n) == first[n]);

  Rng order(3);
  const size_t before = counted_heap::allocations();
  for (auto _ : state) {
    const auto n = static_cast<uint32_t>(order.below(prompts));
    benchmark::DoNotOptimize(decider.decide(request, n));
  }
  state.counters["allocations"] =
      benchmark::Counter(static_cast<double>(counted_heap::allocations() - before),
                         benchmark::Counter::kAvgIterations);
}

const Scorers& four_scorers() {
  static const Scorers scorers = {{&queue_scorer(), 2},
                                  {&kv_cache_utilization_scorer(), 2},
                                  {&prefix_cache_scorer(), 300},
                                  {&token_load_scorer(), 1}};
  return scorers;
}

void decide_hot(benchmark::State& state) {
  decide(state, 100, 10, four_scorers());
}
BENCHMARK(decide_hot);

void decide_hot_kept(benchmark::State& state) {
  decide(state, 100, 10, four_scorers(), kKept);
}
BENCHMARK(decide_hot_kept);

void decide_among_500(benchmark::State& state) {
  decide(state, 500, 10, four_scorers());
}
BENCHMARK(decide_among_500);

void decide_among_500_kept(benchmark::State& state) {
  decide(state, 500, 10, four_scorers(), kKept);
}
BENCHMARK(decide_among_500_kept);

/// 1.5 million blocks: the index is about 100 MB, and each look-up reads lines that no cache holds.
void decide_cold(benchmark::State& state) {
  decide(state, 100, 15'000, four_scorers());
}
BENCHMARK(decide_cold);

void decide_cold_kept(benchmark::State& state) {
  decide(state, 100, 15'000, four_scorers(), kKept);
}
BENCHMARK(decide_cold_kept);

void decide_by_cost(benchmark::State& state) {
  decide(state, 100, 10, {{&min_cost_scorer(), 1}});
}
BENCHMARK(decide_by_cost);

}  // namespace
}  // namespace llmd::plugins

BENCHMARK_MAIN();
