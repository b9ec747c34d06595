#include "metric/buckets.h"
#include "metric/registry.h"

#include <benchmark/benchmark.h>

#include <string>
#include <vector>

namespace llmd::metric {
namespace {

const Definition kCounterDefinition{
    .name = "c_total", .kind = Kind::kCounter, .help = "c", .labels = {"a", "b", "c", "d"}};
const Definition kHistogramDefinition{.name = "h",
                                      .kind = Kind::kHistogram,
                                      .help = "h",
                                      .labels = {"a", "b", "c", "d"},
                                      .buckets = buckets::kGen};
const std::vector<std::string_view> kValues = {"model", "target", "default-flow", "0"};

/// The argument is the thread's cell: 1 is a loop's own, 0 the one all other threads share.
void BM_CounterAdd(benchmark::State& state) {
  Registry registry(4);
  set_thread_cell(static_cast<size_t>(state.range(0)));
  const auto counter = registry.family(kCounterDefinition).counter(kValues);
  for (auto _ : state) counter.add();
}
BENCHMARK(BM_CounterAdd)->Arg(1)->Arg(0);

void BM_HistogramObserve(benchmark::State& state) {
  Registry registry(4);
  set_thread_cell(static_cast<size_t>(state.range(0)));
  const auto histogram = registry.family(kHistogramDefinition).histogram(kValues);
  double value = 0.001;
  for (auto _ : state) {
    histogram.observe(value);
    value = value > 3000 ? 0.001 : value * 1.7;
  }
}
BENCHMARK(BM_HistogramObserve)->Arg(1)->Arg(0);

void BM_FindHandle(benchmark::State& state) {
  Registry registry(4);
  auto& family = registry.family(kCounterDefinition);
  for (auto _ : state) benchmark::DoNotOptimize(family.counter(kValues));
}
BENCHMARK(BM_FindHandle);

/// The argument is the number of series of one histogram of 36 buckets.
void BM_Render(benchmark::State& state) {
  Registry registry(4);
  for (int i = 0; i < state.range(0); ++i) {
    const std::string model = "model-" + std::to_string(i);
    registry.family(kHistogramDefinition)
        .histogram(std::vector<std::string_view>{model, model, "default-flow", "0"})
        .observe(1);
  }
  size_t bytes = 0;
  for (auto _ : state) bytes = registry.render().size();
  state.counters["page_bytes"] = static_cast<double>(bytes);
}
BENCHMARK(BM_Render)->Arg(10)->Arg(1000)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace llmd::metric

BENCHMARK_MAIN();
