#include "base/check.h"
#include "base/rng.h"
#include "kv_events/batch_decoder.h"

#include <benchmark/benchmark.h>

#include <string>
#include <vector>

namespace llmd::kv_events {
namespace {

/// Reads what a consumer must at least read.
struct NullSink {
  uint64_t blocks = 0;
  uint64_t sum = 0;
  void take(const Batch& batch) {
    for (const Event& event : batch.events) {
      blocks += event.blocks.size();
      for (const uint64_t block : event.blocks) sum += block;
      for (const uint32_t token : event.tokens) sum += token;
    }
  }
};

/// Token ids as text has them: most between 256 and 65535, some above, some below.
uint32_t token(Rng& rng) {
  const uint64_t kind = rng.below(10);
  return static_cast<uint32_t>(kind < 1   ? rng.below(256)
                               : kind < 7 ? rng.below(65536)
                                          : rng.below(150000));
}

struct Form {
  bool map;
  bool wide_tokens;  // always five bytes, as the reference simulator writes them
};

void add_store(codec::MsgpackWriter& w, Rng& rng, size_t blocks, size_t block_tokens, Form form) {
  const auto count = static_cast<uint32_t>(blocks);
  form.map ? w.map(11) : w.array(12);
  const auto name = [&](std::string_view text) {
    if (form.map) w.text(text);
  };
  name("type"), w.text("BlockStored");
  name("block_hashes"), w.array(count);
  for (size_t i = 0; i < blocks; ++i) w.uint64(rng.next());
  name("parent_block_hash"), w.nil();
  name("token_ids"), w.array(static_cast<uint32_t>(blocks * block_tokens));
  for (size_t i = 0; i < blocks * block_tokens; ++i)
    form.wide_tokens ? w.uint32(token(rng)) : w.uint(token(rng));
  name("block_size"), w.uint(block_tokens);
  name("lora_id"), w.nil();
  name("medium"), w.text("GPU");
  name("lora_name"), w.nil();
  name("extra_keys"), w.array(count);
  for (size_t i = 0; i < blocks; ++i) w.nil();
  name("group_idx"), w.uint(0);
  name("kv_cache_spec_kind"), w.text("full_attention");
  if (!form.map) w.nil();
}

void run(benchmark::State& state, const std::string& payload, uint64_t blocks) {
  BatchDecoder decoder(**find_adapter("vllm"));
  NullSink check;
  check.take(*decoder.decode(payload));
  CHECK(check.blocks == blocks);
  NullSink sink;
  for (auto _ : state) sink.take(*decoder.decode(payload));
  benchmark::DoNotOptimize(sink.sum);
  state.SetItemsProcessed(static_cast<int64_t>(sink.blocks));
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * payload.size()));
}

std::string batch_of(uint32_t events, auto add) {
  std::string payload;
  codec::MsgpackWriter w(payload);
  w.array(3);
  w.real(1.5);
  w.array(events);
  add(w);
  w.uint(0);
  return payload;
}

/// The prefill of a prompt of 2 048 tokens: one event; items are blocks.
void stores(benchmark::State& state, Form form) {
  Rng rng(1);
  constexpr size_t kTokens = 2048;
  const auto block_tokens = static_cast<size_t>(state.range(0));
  const size_t blocks = kTokens / block_tokens;
  run(state, batch_of(1, [&](auto& w) { add_store(w, rng, blocks, block_tokens, form); }), blocks);
}
BENCHMARK_CAPTURE(stores, map, Form{true, false})->Arg(16)->Arg(64);
BENCHMARK_CAPTURE(stores, array, Form{false, false})->Arg(16)->Arg(64);
BENCHMARK_CAPTURE(stores, array_wide_tokens, Form{false, true})->Arg(16);

/// What a full cache says while it decodes: a block removed and one stored, in maps of their own.
void turnover(benchmark::State& state) {
  Rng rng(1);
  constexpr uint32_t kPairs = 32;
  const std::string payload = batch_of(2 * kPairs, [&](auto& w) {
    for (uint32_t i = 0; i < kPairs; ++i) {
      w.map(4);
      w.text("type"), w.text("BlockRemoved");
      w.text("block_hashes"), w.array(1), w.uint64(rng.next());
      w.text("medium"), w.text("GPU");
      w.text("group_idx"), w.uint(0);
    }
    for (uint32_t i = 0; i < kPairs; ++i) add_store(w, rng, 1, 16, {true, false});
  });
  run(state, payload, 2 * kPairs);
}
BENCHMARK(turnover);

}  // namespace
}  // namespace llmd::kv_events

BENCHMARK_MAIN();
