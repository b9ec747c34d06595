#include "base/check.h"
#include "kv/block_hash.h"

#include <benchmark/benchmark.h>

#include <string>
#include <vector>

namespace llmd::kv {
namespace {

using request::Piece;

constexpr size_t kPromptBytes = 400'000;
constexpr size_t kBlockTokens = 64;

std::string prompt_text() {
  std::string text;
  while (text.size() < kPromptBytes) text += "The quick brown fox jumps over the lazy dog, once. ";
  text.resize(kPromptBytes);
  return text;
}

/// The same text with a line end every 60 bytes, as JSON writes it.
std::string with_line_ends(const std::string& text, std::string_view line_end) {
  std::string out;
  for (size_t at = 0; at < text.size(); at += 60) out += text.substr(at, 59).append(line_end);
  return out;
}

void hash(benchmark::State& state, const std::vector<Piece>& pieces) {
  const request::Prompt prompt{.token_ids = {}, .pieces = pieces};
  const uint64_t seed = chain_seed("m", "");
  Arena arena(64 * 1024);
  const auto run = [&] {
    arena.reset();
    return block_hashes(prompt, seed, kBlockTokens, SIZE_MAX, arena);
  };
  const auto tokens = static_cast<size_t>(token_count(prompt));
  CHECK(run().size() == (tokens + kBlockTokens - 1) / kBlockTokens);
  for (auto _ : state) benchmark::DoNotOptimize(run().data());
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * tokens * 4));
}

void hash_plain(benchmark::State& state) {
  const std::string text = prompt_text();
  hash(state, {{.kind = Piece::Kind::kBytes, .text = text, .bytes = text.size()}});
}
BENCHMARK(hash_plain)->Unit(benchmark::kMicrosecond);

void hash_escaped(benchmark::State& state) {
  const std::string written = with_line_ends(prompt_text(), "\\n");
  const std::string meant = with_line_ends(prompt_text(), "\n");
  hash(state, {{.kind = Piece::Kind::kEscaped, .text = written, .bytes = meant.size()}});
}
BENCHMARK(hash_escaped)->Unit(benchmark::kMicrosecond);

void hash_many_pieces(benchmark::State& state) {
  const std::string text = prompt_text();
  std::vector<Piece> pieces;
  for (size_t at = 0; at < text.size(); at += 1001) {
    const auto part = std::string_view(text).substr(at, 1001);
    pieces.push_back({.kind = Piece::Kind::kBytes, .text = part, .bytes = part.size()});
  }
  hash(state, pieces);
}
BENCHMARK(hash_many_pieces)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace llmd::kv

BENCHMARK_MAIN();
