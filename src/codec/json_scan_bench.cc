#include "codec/json_scan.h"
#include "codec/json_text.h"

#include <benchmark/benchmark.h>
#include <simdjson.h>

#include <cstdlib>
#include <string>

namespace llmd::codec {
namespace {

enum : uint8_t { kRoot, kModel, kPrompt, kItem, kMessages, kMessage, kRole, kContent };
constexpr JsonField kFields[] = {
    {kRoot, "model", kModel},
    {kRoot, "prompt", kPrompt},
    {kRoot, "messages", kMessages},
    {kPrompt, kJsonElement, kItem},
    {kMessages, kJsonElement, kMessage},
    {kMessage, "role", kRole},
    {kMessage, "content", kContent},
};
constexpr JsonSchema kSchema(kFields);

struct Sum final : JsonSink {
  size_t bytes = 0;
  void open(uint8_t, JsonKind, size_t) override {}
  void value(uint8_t id, const JsonValue& v) override {
    if (id == kContent || id == kPrompt || id == kItem) bytes += v.unescaped;
  }
};

/// A completions request whose prompt is `bytes` long with an escape every `gap` bytes (0: none).
std::string completion(size_t bytes, size_t gap) {
  std::string text = R"({"model":"meta-llama/Llama-3.1-8B-Instruct","max_tokens":64,"prompt":")";
  for (size_t i = 0; i < bytes; ++i) {
    if (gap != 0 && i % gap == gap - 1) {
      text += "\\n";
    } else {
      text += static_cast<char>('a' + i % 26);
    }
  }
  return text + "\",\"stream\":true}";
}

std::string chat(int messages) {
  std::string text = R"({"model":"m","messages":[)";
  for (int i = 0; i < messages; ++i) {
    if (i > 0) text += ',';
    text +=
        R"({"role": "user", "content": "A question of some fifty bytes, with \"quotes\" in it?"})";
  }
  return text + "]}";
}

std::string token_ids(int count) {
  std::string text = R"({"model":"m","prompt":[)";
  for (int i = 0; i < count; ++i) text += (i ? "," : "") + std::to_string(i * 7919 % 128000);
  return text + "]}";
}

const std::string& document(int64_t index) {
  static const std::string documents[] = {completion(400'000, 0), completion(400'000, 60),
                                          completion(400'000, 10), chat(1000), token_ids(50'000)};
  return documents[index];
}
const char* const kNames[] = {"prompt", "prompt, escape every 60 bytes",
                              "prompt, escape every 10 bytes", "chat of 1000 messages",
                              "50000 token ids"};

void finish(benchmark::State& state, size_t bytes) {
  state.SetBytesProcessed(static_cast<int64_t>(bytes * state.iterations()));
  state.SetLabel(kNames[state.range(0)]);
}

void scan(benchmark::State& state) {
  const std::string& text = document(state.range(0));
  for (auto _ : state) {
    Sum sum;
    JsonScanner scanner(kSchema, sum);
    if (!scanner.feed(text) || !scanner.finish()) std::abort();
    benchmark::DoNotOptimize(sum.bytes);
  }
  finish(state, text.size());
}
BENCHMARK(scan)->DenseRange(0, 4);

/// As a proxy feeds it: 16 kB more at a time.
void scan_pieces(benchmark::State& state) {
  const std::string_view text = document(state.range(0));
  for (auto _ : state) {
    Sum sum;
    JsonScanner scanner(kSchema, sum);
    for (size_t end = 16384; end < text.size(); end += 16384) scanner.feed(text.substr(0, end));
    if (!scanner.feed(text) || !scanner.finish()) std::abort();
    benchmark::DoNotOptimize(sum.bytes);
  }
  finish(state, text.size());
}
BENCHMARK(scan_pieces)->DenseRange(0, 4);

void simdjson_dom(benchmark::State& state) {
  const simdjson::padded_string text(document(state.range(0)));
  simdjson::dom::parser parser;
  for (auto _ : state) {
    if (parser.parse(text).error() != simdjson::SUCCESS) std::abort();
  }
  finish(state, text.size());
}
BENCHMARK(simdjson_dom)->DenseRange(0, 4);

void unescape(benchmark::State& state) {
  const std::string& text = document(state.range(0));
  const std::string_view inside = std::string_view(text).substr(70, text.size() - 90);
  std::string out(inside.size(), 0);
  for (auto _ : state) benchmark::DoNotOptimize(unescape_json(inside, out.data()));
  finish(state, inside.size());
}
BENCHMARK(unescape)->DenseRange(0, 2);

}  // namespace
}  // namespace llmd::codec

BENCHMARK_MAIN();
