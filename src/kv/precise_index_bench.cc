#include "base/check.h"
#include "base/counted_heap.h"
#include "base/rng.h"
#include "kv/precise_index.h"

#include <benchmark/benchmark.h>
#include <boost/unordered/unordered_flat_map.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <fstream>
#include <list>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

/// LLMD_TRACE names another trace; without a file, requests of about the same shape are made up.

namespace llmd::kv {
namespace {

using Keys = std::vector<uint64_t>;

constexpr uint32_t kEndpoints = 64;
constexpr size_t kResident = 8'000'000;
constexpr size_t kCapacity = kResident / kEndpoints;  // blocks of one endpoint
constexpr size_t kUnitBlocks = 32;                    // of 16 tokens, in an entry of the trace
constexpr size_t kEventBlocks = 128;                  // of one step of chunked prefill
constexpr Place kGpu{.tier = 0, .group = 0};
constexpr TierWeights kWeights = [] {
  TierWeights weights;
  weights.fill(1);
  return weights;
}();

std::vector<Holder> holders(uint32_t count) {
  std::vector<Holder> out(count);
  for (uint32_t slot = 0; slot < count; ++slot) out[slot] = {.slot = slot, .generation = 1};
  return out;
}

uint64_t mixed(uint64_t a, uint64_t b) {
  return Rng(a * 0x9e3779b97f4a7c15 + b).next() | 1;
}
uint64_t engine_key_of(uint64_t key) {
  return mixed(key, 1);
}

/// Requests as lists of prompt pieces of 512 tokens; a piece stands for all before it too.
using Trace = std::vector<std::vector<uint64_t>>;

Trace read_trace(const char* path) {
  Trace trace;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t at = line.find("\"hash_ids\": [");
    if (at == std::string::npos) continue;
    auto& pieces = trace.emplace_back();
    const char* text = line.c_str() + at + 13;
    for (char* end = nullptr; *text != ']' && *text != 0; text = *end == ',' ? end + 1 : end)
      pieces.push_back(std::strtoull(text, &end, 10));
  }
  return trace;
}

/// One piece that all share, conversations that grow, 24 pieces a request and a third seen before.
Trace made_up_trace() {
  Trace trace;
  Rng rng(1);
  uint64_t next = 1;
  for (size_t i = 0; i < 12'000; ++i) {
    std::vector<uint64_t> pieces = {0};
    if (i > 100 && rng.below(2) == 0) pieces = trace[i - 1 - rng.below(100)];
    if (pieces.size() > 200) pieces = {0};
    for (size_t more = 1 + rng.below(31); more > 0; --more) pieces.push_back(next++);
    trace.push_back(std::move(pieces));
  }
  return trace;
}

const Trace& trace() {
  static const Trace trace = [] {
    const char* path = std::getenv("LLMD_TRACE");
    Trace read = read_trace(path ? path : "../shared/data/traces/conversation_trace.jsonl");
    std::fprintf(stderr, "trace: %zu requests%s\n", read.size(), read.empty() ? ", made up" : "");
    return read.empty() ? made_up_trace() : read;
  }();
  return trace;
}

/// What is done to the index, prepared.
struct Stream {
  enum class Kind : uint8_t { kStore, kRemove, kMatch };
  struct Op {
    Kind kind;
    uint32_t slot;
    size_t at, count;  // of keys or removed
    uint64_t parent;
  };
  std::vector<Op> ops;
  Keys keys, engine_keys;  // of chains
  Keys removed;            // engine keys
  size_t blocks[3] = {};   // by kind

  void add(Kind kind, uint32_t slot, size_t at, size_t count, uint64_t parent = 0) {
    if (count == 0) return;
    ops.push_back({kind, slot, at, count, parent});
    blocks[static_cast<size_t>(kind)] += count;
  }
  void store(uint32_t slot, size_t at, size_t count, size_t chain_at) {
    for (size_t done = 0; done < count; done += kEventBlocks)
      add(Kind::kStore, slot, at + done, std::min(kEventBlocks, count - done),
          at + done == chain_at ? 0 : keys[at + done - 1]);
  }
  size_t total() const { return blocks[0] + blocks[1] + blocks[2]; }

  /// Those of endpoints with slot % of == which. Returns the blocks that were matched.
  size_t apply(PreciseIndex& index, uint32_t which = 0, uint32_t of = 1) const {
    const std::vector<Holder> all = holders(kEndpoints);
    std::vector<PrefixHit> hits(all.size());
    size_t matched = 0;
    for (const Op& op : ops) {
      if (op.slot % of != which) continue;
      const Holder& holder = all[op.slot];
      switch (op.kind) {
        case Kind::kStore:
          index.store({.holder = holder,
                       .place = kGpu,
                       .parent = op.parent,
                       .parent_engine_key = op.parent == 0 ? 0 : engine_key_of(op.parent),
                       .keys = std::span(keys).subspan(op.at, op.count),
                       .engine_keys = std::span(engine_keys).subspan(op.at, op.count)});
          break;
        case Kind::kRemove:
          index.remove(holder, kGpu, std::span(removed).subspan(op.at, op.count));
          break;
        case Kind::kMatch: {
          std::ranges::fill(hits, PrefixHit{});
          index.match(std::span(keys).subspan(op.at, op.count), all, kWeights, hits);
          uint32_t longest = 0;
          for (const PrefixHit& hit : hits) longest = std::max(longest, hit.blocks);
          matched += longest;
          break;
        }
      }
    }
    return matched;
  }
};

/// 64 servers with LRU caches that serve the trace again and again, each time with other content.
/// A conversation mostly goes where it was before.
class Servers {
 public:
  /// Serves all requests once more. Half of the stream's blocks are looked up.
  Stream serve() {
    Stream stream;
    std::vector<std::pair<size_t, size_t>> asked;  // chains in the stream
    for (const auto& pieces : trace()) {
      const uint32_t slot = choose(pieces);
      const size_t at = stream.keys.size();
      for (const uint64_t piece : pieces) add_blocks(stream, unit(piece));
      asked.emplace_back(at, stream.keys.size() - at);
      stream.add(Stream::Kind::kMatch, slot, at, stream.keys.size() - at);
      take_in(stream, slot, pieces, at);
      while (stream.blocks[2] < stream.blocks[0] + stream.blocks[1]) {
        const auto [from, count] =
            asked[asked.size() - 1 - rng_.below(std::min<size_t>(asked.size(), 500))];
        stream.add(Stream::Kind::kMatch, slot, from, count);
      }
    }
    last_copy_ = copy_++;
    last_of_.clear();
    return stream;
  }

  /// Compares what the index says of some requests with what the servers hold.
  void check(const PreciseIndex& index) const {
    const std::vector<Holder> all = holders(kEndpoints);
    for (size_t i = 0; i < trace().size(); i += 61) {
      Stream asked;
      for (const uint64_t piece : trace()[i]) add_blocks(asked, mixed(last_copy_, piece));
      std::vector<PrefixHit> hits(all.size());
      index.match(asked.keys, all, kWeights, hits);
      for (uint32_t slot = 0; slot < kEndpoints; ++slot) {
        size_t held = 0;
        for (const uint64_t piece : trace()[i]) {
          if (!caches_[slot].where.contains(mixed(last_copy_, piece))) break;
          held += kUnitBlocks;
        }
        CHECK(hits[slot].blocks == held);
      }
    }
  }

 private:
  struct Cache {
    std::list<uint64_t> order;  // units, the newest first
    boost::unordered_flat_map<uint64_t, std::list<uint64_t>::iterator> where;
  };

  uint64_t unit(uint64_t piece) const { return mixed(copy_, piece); }
  static void add_blocks(Stream& stream, uint64_t unit) {
    for (size_t i = 0; i < kUnitBlocks; ++i) {
      stream.keys.push_back(mixed(unit, i));
      stream.engine_keys.push_back(engine_key_of(stream.keys.back()));
    }
  }

  uint32_t choose(const std::vector<uint64_t>& pieces) {
    uint32_t slot = static_cast<uint32_t>(rng_.below(kEndpoints));
    for (size_t i = pieces.size(); i-- > 1;)
      if (const auto before = last_of_.find(pieces[i]); before != last_of_.end()) {
        if (rng_.below(10) > 0) slot = before->second;
        break;
      }
    for (const uint64_t piece : pieces) last_of_[piece] = slot;
    return slot;
  }

  void take_in(Stream& stream, uint32_t slot, const std::vector<uint64_t>& pieces, size_t at) {
    Cache& cache = caches_[slot];
    size_t known = 0;  // pieces from the start that are there
    while (known < pieces.size() && cache.where.contains(unit(pieces[known]))) ++known;
    for (size_t i = pieces.size(); i-- > 0;) {  // the end of a chain is the first to go
      const uint64_t piece = unit(pieces[i]);
      if (i < known) {
        cache.order.splice(cache.order.begin(), cache.order, cache.where[piece]);
        continue;
      }
      CHECK(!cache.where.contains(piece));
      cache.order.push_front(piece);
      cache.where[piece] = cache.order.begin();
    }
    const size_t removed_at = stream.removed.size();
    for (; cache.order.size() * kUnitBlocks > kCapacity; cache.order.pop_back()) {
      const uint64_t gone = cache.order.back();
      cache.where.erase(gone);
      for (size_t b = kUnitBlocks; b-- > 0;)
        stream.removed.push_back(engine_key_of(mixed(gone, b)));
    }
    stream.add(Stream::Kind::kRemove, slot, removed_at, stream.removed.size() - removed_at);
    stream.store(slot, at + known * kUnitBlocks, (pieces.size() - known) * kUnitBlocks, at);
  }

  Rng rng_{7};
  uint64_t copy_ = 1;
  uint64_t last_copy_ = 1;
  std::vector<Cache> caches_{kEndpoints};
  boost::unordered_flat_map<uint64_t, uint32_t> last_of_;
};

/// Every chain is new: 1 to 31 random blocks for a random endpoint; removed are whole random
/// chains, and looked up are random chains that are there.
class RandomChains {
 public:
  Stream fill() {
    Stream stream;
    while (stream.blocks[0] < kResident) add_chain(stream);
    return stream;
  }
  Stream churn(size_t blocks) {
    Stream stream;
    while (stream.total() < blocks) {
      add_chain(stream);
      while (stream.blocks[1] < stream.blocks[0]) remove_chain(stream);
      while (stream.blocks[2] < stream.blocks[0] + stream.blocks[1]) {
        const Chain& chain = chains_[rng_.below(chains_.size())];
        stream.add(Stream::Kind::kMatch, chain.slot, add_keys(stream, chain), chain.count);
      }
    }
    return stream;
  }

 private:
  struct Chain {
    uint64_t seed;
    uint32_t slot;
    uint32_t count;
  };

  static size_t add_keys(Stream& stream, const Chain& chain) {
    const size_t at = stream.keys.size();
    for (uint32_t i = 0; i < chain.count; ++i) {
      stream.keys.push_back(mixed(chain.seed, i));
      stream.engine_keys.push_back(engine_key_of(stream.keys.back()));
    }
    return at;
  }
  void add_chain(Stream& stream) {
    const Chain chain = {.seed = rng_.next(),
                         .slot = static_cast<uint32_t>(rng_.below(kEndpoints)),
                         .count = 1 + static_cast<uint32_t>(rng_.below(31))};
    chains_.push_back(chain);
    const size_t at = add_keys(stream, chain);
    stream.store(chain.slot, at, chain.count, at);
  }
  void remove_chain(Stream& stream) {
    Chain& chain = chains_[rng_.below(chains_.size())];
    const size_t at = stream.removed.size();
    for (uint32_t i = chain.count; i-- > 0;)
      stream.removed.push_back(engine_key_of(mixed(chain.seed, i)));
    stream.add(Stream::Kind::kRemove, chain.slot, at, chain.count);
    chain = chains_.back();
    chains_.pop_back();
  }

  Rng rng_{11};
  std::vector<Chain> chains_;
};

size_t resident_bytes() {
  size_t pages = 0;
  size_t resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

void note_memory(benchmark::State& state, const PreciseIndex& index) {
  const PreciseIndexStats stats = index.stats();
  state.counters["resident_blocks"] = static_cast<double>(stats.blocks);
  state.counters["bytes_per_block"] =
      static_cast<double>(stats.bytes) / static_cast<double>(stats.blocks);
  state.counters["holdings_per_block"] =
      static_cast<double>(stats.holdings) / static_cast<double>(stats.blocks);
}

/// Runs a stream for each iteration, the parts of the index at the same time; items are blocks.
template <class Next>
void run_streams(benchmark::State& state, PreciseIndex& index, uint32_t threads, Next next) {
  size_t blocks = 0;
  size_t asked = 0;
  size_t ops = 0;
  uint64_t allocated = 0;
  std::atomic<size_t> matched = 0;
  for (auto _ : state) {
    state.PauseTiming();
    const Stream stream = next();
    const uint64_t before = counted_heap::allocations();
    state.ResumeTiming();
    std::vector<std::thread> others;
    for (uint32_t i = 1; i < threads; ++i)
      others.emplace_back([&, i] { matched += stream.apply(index, i, threads); });
    matched += stream.apply(index, 0, threads);
    for (auto& thread : others) thread.join();
    blocks += stream.total();
    asked += stream.blocks[2];
    ops += stream.ops.size();
    state.PauseTiming();
    allocated += counted_heap::allocations() - before;
    state.ResumeTiming();
  }
  state.SetItemsProcessed(static_cast<int64_t>(blocks));
  state.counters["matched_share"] = static_cast<double>(matched) / static_cast<double>(asked);
  state.counters["blocks_per_op"] = static_cast<double>(blocks) / static_cast<double>(ops);
  state.counters["allocations_per_op"] = static_cast<double>(allocated) / static_cast<double>(ops);
  note_memory(state, index);
}

void stream_of_trace(benchmark::State& state) {
  const auto threads = static_cast<uint32_t>(state.range(0));
  PreciseIndex index({.parts = threads});
  Servers servers;
  do servers.serve().apply(index);
  while (index.stats().blocks < kResident * 95 / 100);
  servers.check(index);
  run_streams(state, index, threads, [&] { return servers.serve(); });
  servers.check(index);
  CHECK(index.check().empty());
}
BENCHMARK(stream_of_trace)->Arg(1)->Iterations(3)->Repetitions(3)->Unit(benchmark::kMillisecond);
BENCHMARK(stream_of_trace)
    ->Arg(2)
    ->Iterations(3)
    ->Repetitions(3)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

void stream_of_random_chains(benchmark::State& state) {
  PreciseIndex index;
  RandomChains chains;
  const size_t before = resident_bytes();
  {
    const Stream fill = chains.fill();
    const size_t prepared = resident_bytes();
    fill.apply(index);
    state.counters["resident_bytes_per_block"] =
        static_cast<double>(resident_bytes() - prepared) / static_cast<double>(kResident);
  }
  CHECK(resident_bytes() > before);
  run_streams(state, index, 1, [&] { return chains.churn(10'000'000); });
  CHECK(state.counters["matched_share"] == 1);
  CHECK(index.check().empty());
}
BENCHMARK(stream_of_random_chains)->Iterations(3)->Repetitions(3)->Unit(benchmark::kMillisecond);

/// A chain of 3 750 blocks that 96 endpoints hold up to different lengths, or all of it.
void match_long(benchmark::State& state) {
  constexpr size_t kBlocks = 3750;
  constexpr uint32_t kHolders = 96;
  PreciseIndex index;
  Keys chain(kBlocks);
  for (size_t i = 0; i < kBlocks; ++i) chain[i] = mixed(5, i);
  const std::vector<Holder> all = holders(kHolders);
  const auto held = [&](uint32_t slot) {
    return state.range(0) == 0 ? kBlocks : kBlocks * (slot + 1) / kHolders;
  };
  for (uint32_t slot = 0; slot < kHolders; ++slot)
    index.store({.holder = all[slot], .place = kGpu, .keys = std::span(chain).first(held(slot))});
  std::vector<PrefixHit> hits(all.size());
  index.match(chain, all, kWeights, hits);
  for (uint32_t slot = 0; slot < kHolders; ++slot) CHECK(hits[slot].blocks == held(slot));
  const uint64_t before = counted_heap::allocations();
  for (auto _ : state) {
    std::ranges::fill(hits, PrefixHit{});
    index.match(chain, all, kWeights, hits);
    benchmark::DoNotOptimize(hits.data());
  }
  state.counters["allocations"] = static_cast<double>(counted_heap::allocations() - before);
}
BENCHMARK(match_long)
    ->Arg(0)
    ->Arg(1)
    ->ArgName("lengths")
    ->Repetitions(5)
    ->Unit(benchmark::kMicrosecond);

double share_of(std::vector<double>& times, double share) {
  const auto at =
      times.begin() + static_cast<ptrdiff_t>(share * static_cast<double>(times.size() - 1));
  std::ranges::nth_element(times, at);
  return *at;
}

double thread_us() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

/// Look-ups of 256 keys while another thread stores and removes a million blocks a second. The
/// times are those of the reading thread's own work, so that what else the machine does is left
/// out; wall_p99_us has it in.
void match_beside_writer(benchmark::State& state) {
  constexpr size_t kKeys = 256;
  constexpr double kBlocksASecond = 1e6;
  PreciseIndex index;
  Servers servers;
  Stream stream = servers.serve();
  stream.apply(index);
  std::deque<Stream> ahead;  // so that the writer need not wait for what to write
  for (int i = 0; i < 3; ++i) ahead.push_back(servers.serve());
  std::atomic<bool> done = false;
  std::atomic<size_t> written = 0;
  const auto start = std::chrono::steady_clock::now();
  std::thread writer([&] {
    const std::vector<Holder> all = holders(kEndpoints);
    while (!done) {
      CHECK(!ahead.empty());
      const Stream more = std::move(ahead.front());
      ahead.pop_front();
      const auto from = std::chrono::steady_clock::now();
      double due = 0;
      for (const Stream::Op& op : more.ops) {
        if (done) return;
        if (op.kind == Stream::Kind::kMatch) continue;
        std::this_thread::sleep_until(from + std::chrono::duration<double>(due / kBlocksASecond));
        if (op.kind == Stream::Kind::kStore)
          index.store({.holder = all[op.slot],
                       .place = kGpu,
                       .parent = op.parent,
                       .parent_engine_key = op.parent == 0 ? 0 : engine_key_of(op.parent),
                       .keys = std::span(more.keys).subspan(op.at, op.count),
                       .engine_keys = std::span(more.engine_keys).subspan(op.at, op.count)});
        else
          index.remove(all[op.slot], kGpu, std::span(more.removed).subspan(op.at, op.count));
        due += static_cast<double>(op.count);
        written += op.count;
      }
    }
  });
  const std::vector<Holder> all = holders(kEndpoints);
  std::vector<PrefixHit> hits(all.size());
  std::vector<double> own;
  std::vector<double> wall;
  size_t matched = 0;
  Rng rng(3);
  for (auto _ : state) {
    const Stream::Op& op = stream.ops[rng.below(stream.ops.size())];
    if (op.kind != Stream::Kind::kMatch || op.count < kKeys) continue;
    std::ranges::fill(hits, PrefixHit{});
    const auto wall_from = std::chrono::steady_clock::now();
    const double from = thread_us();
    index.match(std::span(stream.keys).subspan(op.at, kKeys), all, kWeights, hits);
    own.push_back(thread_us() - from);
    wall.push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - wall_from)
            .count());
    matched += std::ranges::max(hits, {}, &PrefixHit::blocks).blocks;
  }
  done = true;
  writer.join();
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
  state.counters["lookups"] = static_cast<double>(own.size());
  state.counters["matched_blocks"] = static_cast<double>(matched) / static_cast<double>(own.size());
  state.counters["written_per_s"] = static_cast<double>(written) / passed.count();
  state.counters["p50_us"] = share_of(own, 0.5);
  state.counters["p99_us"] = share_of(own, 0.99);
  state.counters["p999_us"] = share_of(own, 0.999);
  state.counters["wall_p99_us"] = share_of(wall, 0.99);
}
BENCHMARK(match_beside_writer)->Iterations(1'000'000)->Unit(benchmark::kMicrosecond);

/// Clearing an endpoint of 100 000 blocks among 8 million.
void clear_endpoint(benchmark::State& state) {
  PreciseIndex index;
  RandomChains chains;
  chains.fill().apply(index);
  const std::vector<Holder> all = holders(kEndpoints);
  uint32_t slot = 0;
  for (auto _ : state) index.clear(all[slot++]);
  CHECK(index.check().empty());
  note_memory(state, index);
}
BENCHMARK(clear_endpoint)->Iterations(8)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace llmd::kv

BENCHMARK_MAIN();
