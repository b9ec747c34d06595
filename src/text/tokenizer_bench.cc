// Tokens of new text by both engines, and of the next turn of a long conversation. The texts are
// the sources and documents of this repository: run from its root, after scripts/setup.sh test.
#include "model.h"

#include "base/file.h"
#include "text/tokenizer.h"

#include <benchmark/benchmark.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <string>
#include <thread>

namespace llmd::text {
namespace {

const std::string kFolder = "build/tokenizers/";

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "tokenizer_bench: %s\n", why.c_str());
  std::exit(1);
}

template <class T>
T must(Result<T> result) {
  if (!result) give_up(result.error().message);
  return std::move(*result);
}

/// Files of the repository, some megabytes of code and English.
const std::string& corpus() {
  static const std::string text = [] {
    std::vector<std::filesystem::path> files;
    for (const char* folder : {"src", "docs", "apps", "tests/integration", "rust/text-engine/src"})
      for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
        if (const auto kind = entry.path().extension();
            kind == ".cc" || kind == ".h" || kind == ".md" || kind == ".py" || kind == ".rs")
          files.push_back(entry.path());
    std::ranges::sort(files);
    std::string all;
    for (const auto& file : files) all += must(read_file(file, 1 << 20));
    if (all.size() < (1 << 20)) give_up("run me from the repository's root");
    return all;
  }();
  return text;
}

/// The same tokenizer by the other engine: a token that must stand alone, which no text has, is one
/// that fastokens does not do.
std::unique_ptr<Model> open(const std::string& name, bool hugging_face) {
  if (!hugging_face) return must(Model::open(kFolder + name));
  auto json =
      nlohmann::json::parse(must(read_file(kFolder + name + "/tokenizer.json", size_t{64} << 20)));
  uint32_t id = 0;
  for (const auto& token : json["added_tokens"]) id = std::max(id, token["id"].get<uint32_t>());
  json["added_tokens"].push_back({{"id", id + 1},
                                  {"content", "\x7fnowhere\x7f"},
                                  {"single_word", true},
                                  {"lstrip", false},
                                  {"rstrip", false},
                                  {"normalized", false},
                                  {"special", false}});
  return must(Model::of(json.dump(), "", ""));
}

Tokens encode(const Model& model, std::string_view text) {
  Tokens tokens;
  if (const auto done = model.encode(text, tokens); !done) give_up(done.error().message);
  return tokens;
}

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Documents of 64 KiB of which none comes twice, in CPU time of a new thread, since the engine
/// keeps what a thread has seen.
void new_text(benchmark::State& state, const std::string& name, bool hugging_face) {
  constexpr size_t kDocument = 64 << 10;
  if (encode(*open(name, false), corpus()) != encode(*open(name, true), corpus()))
    give_up("the engines differ");
  const auto model = open(name, hugging_face);
  for (auto _ : state) {
    std::thread([&] {
      const double start = thread_seconds();
      for (size_t at = 0; at < corpus().size();) {
        const size_t end = std::min(corpus().find('\n', at + kDocument), corpus().size());
        benchmark::DoNotOptimize(encode(*model, std::string_view(corpus()).substr(at, end - at)));
        at = end;
      }
      state.SetIterationTime(thread_seconds() - start);
    }).join();
  }
  state.SetBytesProcessed(static_cast<int64_t>(corpus().size()));
  state.SetLabel(std::string(model->engine()));
}

/// A chat whose messages are the corpus from `at` on, as the body of a request.
nlohmann::json chat(size_t bytes) {
  nlohmann::json messages = nlohmann::json::array();
  size_t at = 0;
  for (bool user = true; at < bytes; user = !user) {
    const size_t end = std::min(corpus().find('\n', at + (user ? 3000 : 1000)), corpus().size());
    messages.push_back(
        {{"role", user ? "user" : "assistant"}, {"content", corpus().substr(at, end - at)}});
    at = end;
  }
  return {{"model", "m"}, {"messages", messages}};
}

/// The next turn of a conversation of 100 000 tokens: an answer and a question of 1 kB each, new
/// in every round; parsing and rendering included.
void next_turn(benchmark::State& state, const std::string& name) {
  metric::Registry registry{1};
  const auto metrics = Metrics::of(registry);
  const auto tokenizer = must(Tokenizer::open(kFolder + name, size_t{64} << 20, metrics));
  nlohmann::json turn = chat(360'000);
  const size_t before = turn["messages"].size();
  const size_t tokens = must(tokenizer->prompts(turn.dump(), true)).at(0).size();
  size_t at = 400'000;
  const auto add_turn = [&] {
    turn["messages"].erase(turn["messages"].begin() + static_cast<ptrdiff_t>(before),
                           turn["messages"].end());
    for (const char* role : {"assistant", "user"}) {
      turn["messages"].push_back({{"role", role}, {"content", corpus().substr(at, 1000)}});
      at = corpus().find('\n', at + 1000) % (corpus().size() - 100'000);
    }
    return turn.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  };
  const auto anew = must(Tokenizer::open(kFolder + name, 0, metrics));
  const std::string first = add_turn();
  if (must(tokenizer->prompts(first, true)) != must(anew->prompts(first, true)))
    give_up("a turn differs from a full run");
  for (auto _ : state) {
    state.PauseTiming();
    const std::string body = add_turn();
    state.ResumeTiming();
    benchmark::DoNotOptimize(must(tokenizer->prompts(body, true)));
  }
  state.counters["tokens"] = static_cast<double>(tokens);
}

void once(benchmark::internal::Benchmark* bench) {
  bench->Iterations(1)->UseManualTime()->Unit(benchmark::kMillisecond);
}

#define LLMD_BENCH(name)                                                    \
  BENCHMARK_CAPTURE(new_text, name##_fastokens, #name, false)->Apply(once); \
  BENCHMARK_CAPTURE(new_text, name##_tokenizers, #name, true)->Apply(once); \
  BENCHMARK_CAPTURE(next_turn, name, #name)->Unit(benchmark::kMillisecond)
LLMD_BENCH(qwen3);
LLMD_BENCH(llama3_1);
LLMD_BENCH(deepseek_v3);

}  // namespace
}  // namespace llmd::text

BENCHMARK_MAIN();
