#include "base/counted_heap.h"
#include "base/log.h"

#include <benchmark/benchmark.h>

#include <fcntl.h>
#include <unistd.h>

namespace llmd::log {
namespace {

/// One access line of six fields; a run fits into the ring; counted are the allocations of
/// all threads.
void BM_Line(benchmark::State& state) {
  const int fd = ::open("/dev/null", O_WRONLY);
  start({.format = state.range(0) == 0 ? Format::kJson : Format::kConsole, .fd = fd});
  info("first line of the thread");
  const uint64_t before = counted_heap::allocations();
  const uint64_t dropped = dropped_lines();
  for (auto _ : state)
    info("Request handled", {{"x-request-id", "8f14e45f-ceea-467f-a0e6-4a1d4e3c2b1a"},
                             {"incomingModelName", "meta-llama/Llama-3.1-8B-Instruct"},
                             {"endpoint", "default/vllm-7c9d8f"},
                             {"tokens", 1834},
                             {"ttft_ms", 41.25},
                             {"streaming", true}});
  const auto lines = static_cast<double>(state.iterations());
  state.counters["allocations_per_line"] =
      static_cast<double>(counted_heap::allocations() - before) / lines;
  state.counters["dropped_share"] = static_cast<double>(dropped_lines() - dropped) / lines;
  stop();
  ::close(fd);
}
BENCHMARK(BM_Line)->Arg(0)->Arg(1)->ArgName("console")->Iterations(900)->Repetitions(5);

void BM_LineBelowTheLevel(benchmark::State& state) {
  for (auto _ : state) debug("not written", {{"tokens", 1834}});
}
BENCHMARK(BM_LineBelowTheLevel);

}  // namespace
}  // namespace llmd::log

BENCHMARK_MAIN();
