#include "codec/prometheus_scan.h"
#include "codec/sse_scan.h"

#include <benchmark/benchmark.h>

#include <array>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

namespace llmd::codec {
namespace {

struct Count final : PrometheusSink, SseSink {
  size_t count = 0;
  void sample(size_t, const PrometheusSample&) override { ++count; }
  void data(std::string_view) override { ++count; }
  void data_part(std::string_view, bool, bool) override {}
};

/// A page of vLLM after load. Run from the root of the repository.
void prometheus_page(benchmark::State& state) {
  std::ifstream file("tests/data/vllm/metrics-after-load.txt");
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  if (page.empty()) return state.SkipWithError("tests/data/vllm/metrics-after-load.txt not found");
  constexpr std::string_view kNames[] = {"vllm:num_requests_running", "vllm:num_requests_waiting",
                                         "vllm:kv_cache_usage_perc", "vllm:cache_config_info",
                                         "vllm:lora_requests_info"};
  const PrometheusNames names(kNames);
  for (auto _ : state) {
    Count count;
    PrometheusScanner scanner(names, count);
    scanner.feed(page);
    scanner.finish();
    if (count.count != 4) std::abort();
  }
  state.SetBytesProcessed(static_cast<int64_t>(page.size() * state.iterations()));
}
BENCHMARK(prometheus_page);

/// 1000 events of a chat answer in one chunk.
void sse_events(benchmark::State& state) {
  std::string text;
  for (int i = 0; i < 1000; ++i)
    text +=
        R"(data: {"id":"chatcmpl-8f0c","object":"chat.completion.chunk","created":1700000000,"model":"m","choices":[{"index":0,"delta":{"content":" token"},"logprobs":null,"finish_reason":null}]})"
        "\n\n";
  for (auto _ : state) {
    Count count;
    std::array<char, 1024> buffer;
    SseScanner scanner(count, buffer);
    scanner.feed(text);
    if (count.count != 1000) std::abort();
  }
  state.SetBytesProcessed(static_cast<int64_t>(text.size() * state.iterations()));
}
BENCHMARK(sse_events);

}  // namespace
}  // namespace llmd::codec

BENCHMARK_MAIN();
