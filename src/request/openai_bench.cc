#include "openai_scan.h"
#include "usage_scan.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <string>

namespace llmd::request {
namespace {

std::string chat(int messages, size_t bytes) {
  std::string text = R"({"model":"m","stream":true,"messages":[)";
  for (int i = 0; i < messages; ++i)
    text += (i ? R"(,{"role":"user","content":")" : R"({"role":"user","content":")") +
            std::string(bytes, 'x') + "\"}";
  return text + "]}";
}

/// A chat of about `bytes`: messages of 2 kB with a line end every 60 characters, as text has them.
std::string lines(size_t bytes) {
  std::string message = R"({"role":"user","content":")";
  while (message.size() < std::min<size_t>(bytes, 2000)) message += std::string(60, 'x') + "\\n";
  message += "\"}";
  std::string text = R"({"model":"m","stream":true,"messages":[)" + message;
  while (text.size() < bytes) text += "," + message;
  return text + "]}";
}

std::string tokens(int count) {
  std::string text = R"({"model":"m","prompt":[)";
  for (int i = 0; i < count; ++i) text += (i ? "," : "") + std::to_string(i * 7919 % 128000);
  return text + "]}";
}

/// Tools of an agent: 40 functions, keys out of order.
std::string agent() {
  std::string tools;
  for (int i = 0; i < 40; ++i)
    tools +=
        std::string(i ? "," : "") +
        R"({"type":"function","function":{"name":"tool","description":"Reads a file from the working folder and returns its lines.","parameters":{"type":"object","properties":{"path":{"type":"string","description":"where"},"limit":{"type":"integer"}},"required":["path"]}}})";
  return R"({"model":"m","tools":[)" + tools + R"(],"messages":[{"role":"user","content":"go"}]})";
}

void parse(benchmark::State& state, BodyScan* (*make)(Arena&), const std::string& body) {
  Arena arena(64 * 1024);
  size_t chunks = 0;
  for (auto _ : state) {
    arena.reset();
    BodyScan* scan = make(arena);
    if (!scan->finish(body)) std::abort();
    chunks = arena.extra_chunks();
  }
  state.SetBytesProcessed(static_cast<int64_t>(body.size() * state.iterations()));
  state.counters["heap_chunks"] = static_cast<double>(chunks);
}
BENCHMARK_CAPTURE(parse, completion_400kB, scan_completions,
                  R"({"model":"m","prompt":")" + std::string(400'000, 'x') + "\"}");
BENCHMARK_CAPTURE(parse, token_ids_50000, scan_completions, tokens(50'000));
BENCHMARK_CAPTURE(parse, chat_3_messages, scan_chat, chat(3, 200));
BENCHMARK_CAPTURE(parse, chat_200_messages, scan_chat, chat(200, 500));
BENCHMARK_CAPTURE(parse, chat_1kB, scan_chat, lines(1'000));
BENCHMARK_CAPTURE(parse, chat_1MB, scan_chat, lines(1'000'000));
BENCHMARK_CAPTURE(parse, chat_100MB, scan_chat, lines(100'000'000));
BENCHMARK_CAPTURE(parse, chat_40_tools, scan_chat, agent());

/// One event of a streamed answer, without usage or with it.
void event(benchmark::State& state, const std::string& text) {
  Arena arena(64 * 1024);
  UsageScan* scan = scan_sse_usage(UsageFormat::kOpenAi, arena);
  for (auto _ : state) scan->feed(text);
  state.SetBytesProcessed(static_cast<int64_t>(text.size() * state.iterations()));
  if (scan->events() != static_cast<uint64_t>(state.iterations())) std::abort();
}
BENCHMARK_CAPTURE(
    event, without_usage,
    R"(data: {"id":"chatcmpl-8f0c","object":"chat.completion.chunk","created":1700000000,"model":"m","choices":[{"index":0,"delta":{"content":" token"},"logprobs":null,"finish_reason":null}]})"
    "\n\n");
BENCHMARK_CAPTURE(
    event, with_usage,
    R"(data: {"id":"chatcmpl-8f0c","object":"chat.completion.chunk","created":1700000000,"model":"m","choices":[],"usage":{"prompt_tokens":11,"total_tokens":18,"completion_tokens":7}})"
    "\n\n");

}  // namespace
}  // namespace llmd::request

BENCHMARK_MAIN();
