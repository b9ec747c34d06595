#include "base/check.h"
#include "base/rng.h"
#include "kv/approx_index.h"

#include <benchmark/benchmark.h>

#include <vector>

namespace llmd::kv {
namespace {

constexpr uint32_t kEndpoints = 100;
constexpr size_t kChainBlocks = 100;
constexpr size_t kCapacity = 31'250;

std::vector<uint64_t> chain_of(uint64_t number) {
  Rng mix(number);
  std::vector<uint64_t> chain(kChainBlocks);
  for (auto& block : chain) block = mix.next();
  return chain;
}

/// Every endpoint is full of chains; chain c is held by the endpoints c % 100 and (c + 1) % 100.
class Filled {
 public:
  explicit Filled(size_t chains) {
    for (uint64_t c = 0; c < chains; ++c) {
      chains_.push_back(chain_of(c));
      for (const auto slot : {c % kEndpoints, (c + 1) % kEndpoints})
        index.commit({.slot = static_cast<uint32_t>(slot), .generation = 1, .capacity = kCapacity},
                     chains_.back());
    }
    check(chains - 1);
  }
  const std::vector<uint64_t>& chain(size_t i) const { return chains_[i]; }
  size_t size() const { return chains_.size(); }

  /// Whoever holds the chain holds all of it, nobody else anything.
  void check(uint64_t c) const {
    std::vector<uint32_t> matched(kEndpoints);
    index.match(chains_[c], matched);
    for (uint32_t slot = 0; slot < kEndpoints; ++slot) {
      const bool holds = slot == c % kEndpoints || slot == (c + 1) % kEndpoints;
      CHECK(matched[slot] == (holds ? kChainBlocks : 0));
    }
  }

  ApproxIndex index;

 private:
  std::vector<std::vector<uint64_t>> chains_;
};

void match(benchmark::State& state, const Filled& filled) {
  std::vector<uint32_t> matched(kEndpoints);
  Rng order(7);
  for (auto _ : state) {
    filled.index.match(filled.chain(order.below(filled.size())), matched);
    benchmark::DoNotOptimize(matched.data());
  }
  state.counters["table_MB"] = static_cast<double>(filled.index.table_bytes()) / 1e6;
  state.counters["pairs"] = static_cast<double>(filled.index.size());
}

void match_hot(benchmark::State& state) {
  static const Filled filled(10);
  match(state, filled);
}
BENCHMARK(match_hot);

/// The chains themselves are read from memory too, as a side effect of not being made on the spot.
void match_cold(benchmark::State& state) {
  static const Filled filled(15'000);
  match(state, filled);
}
BENCHMARK(match_cold);

/// All endpoints hold the chain up to some place of their own.
void match_all_endpoints(benchmark::State& state) {
  ApproxIndex index;
  const auto chain = chain_of(1);
  for (uint32_t slot = 0; slot < kEndpoints; ++slot)
    index.commit({.slot = slot, .generation = 1, .capacity = kCapacity},
                 std::span(chain).first(slot + 1));
  std::vector<uint32_t> matched(kEndpoints);
  index.match(chain, matched);
  for (uint32_t slot = 0; slot < kEndpoints; ++slot) CHECK(matched[slot] == slot + 1);
  for (auto _ : state) {
    index.match(chain, matched);
    benchmark::DoNotOptimize(matched.data());
  }
}
BENCHMARK(match_all_endpoints);

void commit_known(benchmark::State& state) {
  static Filled filled(10);
  uint64_t c = 0;
  for (auto _ : state) {
    filled.index.commit(
        {.slot = static_cast<uint32_t>(c % 10), .generation = 1, .capacity = kCapacity},
        filled.chain(c % 10));
    ++c;
  }
  filled.check(3);
}
BENCHMARK(commit_known);

/// Every block is new and, the endpoint being full, replaces its oldest.
void commit_new(benchmark::State& state) {
  ApproxIndex index;
  const BlockOwner owner{.slot = 5, .generation = 1, .capacity = kCapacity};
  uint64_t c = 0;
  for (; c < kCapacity / kChainBlocks + 1; ++c) index.commit(owner, chain_of(c));
  CHECK(index.size() == kCapacity);
  std::vector<uint64_t> chain = chain_of(c);
  for (auto _ : state) {
    for (auto& block : chain) block = block * 0x9e3779b97f4a7c15 + 1;
    index.commit(owner, chain);
  }
  CHECK(index.size() == kCapacity);
}
BENCHMARK(commit_new);

}  // namespace
}  // namespace llmd::kv

BENCHMARK_MAIN();
