#include "base/check.h"
#include "base/rng.h"
#include "kv/block_keys.h"

#include <benchmark/benchmark.h>

#include <vector>

namespace llmd::kv {
namespace {

constexpr size_t kTokens = 100'000;

void hash(benchmark::State& state, KeyAlgorithm algorithm) {
  Rng rng(1);
  std::vector<uint32_t> tokens(kTokens);
  for (uint32_t& token : tokens) token = static_cast<uint32_t>(rng.below(128'000));
  const BlockKeys keys(algorithm, "", static_cast<size_t>(state.range(0)));
  std::vector<uint64_t> out(keys.blocks_of(kTokens));
  const uint64_t root = keys.root("m");
  keys.chain(root, tokens, {}, out);
  std::vector<uint64_t> rest(out.size() - 1);
  keys.chain(out[0], std::span(tokens).subspan(keys.block_tokens()), {}, rest);
  CHECK(rest.back() == out.back());
  for (auto _ : state) {
    keys.chain(root, tokens, {}, out);
    benchmark::DoNotOptimize(out.data());
  }
  state.counters["blocks"] = static_cast<double>(out.size());
}

void hash_xxh64(benchmark::State& state) {
  hash(state, KeyAlgorithm::kXxh64);
}
BENCHMARK(hash_xxh64)->Arg(16)->Arg(64)->Unit(benchmark::kMicrosecond);

void hash_cbor_fnv(benchmark::State& state) {
  hash(state, KeyAlgorithm::kCborFnv);
}
BENCHMARK(hash_cbor_fnv)->Arg(16)->Arg(64)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace llmd::kv

BENCHMARK_MAIN();
