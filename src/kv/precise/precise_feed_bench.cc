#include "base/check.h"
#include "base/rng.h"
#include "codec/msgpack.h"
#include "kv_events/subscriber.h"
#include "kv_events/zmq_socket.h"
#include "kv_precise/precise_feed.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

/// What an engine publishes, from its socket until look-ups see it.
namespace llmd::kv_precise {
namespace {

constexpr size_t kBlockTokens = 16;
constexpr kv::Holder kHolder{.slot = 3, .generation = 7};
constexpr std::string_view kPod = "10.0.0.1:8000";
constexpr std::string_view kModel = "m";

double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

double thread_seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

/// A feed that notes when it is through with a batch.
class Noting final : public kv_events::EventSink {
 public:
  explicit Noting(PreciseFeed& feed) : feed_(feed) {}

  void on_joined(kv_events::Publisher& publisher) override { feed_.on_joined(publisher); }
  void on_batch(kv_events::Publisher& publisher, std::string_view model,
                const kv_events::Batch& batch) override {
    if (batches == 0) cpu_from_ = thread_seconds();
    feed_.on_batch(publisher, model, batch);
    lags.push_back(1e6 * (unix_seconds() - batch.published));
    cpu_s = thread_seconds() - cpu_from_;
    batches.fetch_add(1, std::memory_order_release);
  }
  void on_lost(kv_events::Publisher&, uint64_t) override { CHECK(false); }
  void on_reset(kv_events::Publisher& publisher) override { feed_.on_reset(publisher); }
  void on_left(kv_events::Publisher& publisher) override { feed_.on_left(publisher); }

  std::atomic<size_t> batches = 0;
  // Of the events' thread; for others when they have seen the last batch.
  std::vector<double> lags;  // microseconds
  double cpu_s = 0;

 private:
  PreciseFeed& feed_;
  double cpu_from_ = 0;
};

/// One engine over TCP, and who follows it.
class Bench {
 public:
  Bench() {
    feed_.add_endpoint(kPod, kHolder);
    CHECK(engine_.bind("tcp://127.0.0.1:*"));
    subscriber_ = kv_events::Subscriber::start({.threads = 1}, sink, metrics_, 0).value();
    subscriber_->follow({.id = "default/a",
                         .pod = std::string(kPod),
                         .owner = 1,
                         .endpoint = engine_.bound_endpoint(),
                         .replay_endpoint = "",
                         .model = std::string(kModel)});
    kv_events::ZmqMessage subscription;
    while (!engine_.receive(subscription)) std::this_thread::yield();
  }

  /// A step of an engine with a full cache: `blocks` are stored, the oldest that many removed.
  void publish(size_t blocks) {
    std::string payload;
    codec::MsgpackWriter w(payload);
    w.array(3), w.real(unix_seconds());
    const bool full = stored_ >= kCacheBlocks;
    w.array(full ? 2 : 1);
    if (full) {
      w.map(3);
      w.text("type"), w.text("BlockRemoved");
      w.text("block_hashes"), w.array(static_cast<uint32_t>(blocks));
      for (size_t i = 0; i < blocks; ++i) w.uint64(engine_key(removed_++));
      w.text("medium"), w.text("GPU");
    }
    w.map(6);
    w.text("type"), w.text("BlockStored");
    w.text("block_hashes"), w.array(static_cast<uint32_t>(blocks));
    for (size_t i = 0; i < blocks; ++i) w.uint64(engine_key(stored_++));
    w.text("parent_block_hash"), w.nil();
    w.text("token_ids"), w.array(static_cast<uint32_t>(blocks * kBlockTokens));
    last_.clear();
    for (size_t i = 0; i < blocks * kBlockTokens; ++i) {
      last_.push_back(static_cast<uint32_t>(rng_.below(150'000)));
      w.uint(last_.back());
    }
    w.text("block_size"), w.uint(kBlockTokens);
    w.text("medium"), w.text("GPU");
    w.uint(0);
    std::string sequence(8, '\0');
    for (size_t i = 0; i < 8; ++i) sequence[i] = static_cast<char>(published_ >> (56 - 8 * i));
    CHECK(engine_.send({"kv@10.0.0.1:8000@m", sequence, payload}));
    ++published_;
  }

  void drain() const {
    while (sink.batches.load(std::memory_order_acquire) < published_)
      std::this_thread::sleep_for(std::chrono::microseconds(200));
  }

  /// Whether look-ups see what was published last, and nothing that was removed.
  void check() const {
    std::vector<uint64_t> chain(keys_.blocks_of(last_.size()));
    keys_.chain(keys_.root(kModel), last_, {}, chain);
    kv::PrefixHit hit;
    index_.match(chain, std::span(&kHolder, 1), std::span(&hit, 1));
    CHECK(hit.blocks == chain.size());
    CHECK(index_.holdings_of(kHolder) == stored_ - removed_);
    CHECK(index_.check().empty());
  }

  size_t changes() const { return stored_ + removed_; }

 private:
  static constexpr size_t kCacheBlocks = 100'000;
  static uint64_t engine_key(uint64_t number) {
    uint64_t x = (number + 1) * 0x9e3779b97f4a7c15;
    return (x ^ x >> 31) | 1;
  }

  Rng rng_{1};
  metric::Registry metrics_{2};
  TierNames tiers_{{}};
  PreciseStore index_{{}, tiers_};
  const kv::BlockKeys keys_{kv::KeyAlgorithm::kXxh64, "", kBlockTokens};
  PreciseFeed feed_{index_, tiers_, keys_};
  kv_events::ZmqContext zmq_;
  kv_events::ZmqSocket engine_{zmq_, ZMQ_XPUB, {.send_messages_max = 0}};
  size_t stored_ = 0;
  size_t removed_ = 0;
  uint64_t published_ = 0;
  std::vector<uint32_t> last_;  // tokens

 public:
  Noting sink{feed_};

 private:
  std::unique_ptr<kv_events::Subscriber> subscriber_;
};

/// As fast as they can be read: steps of 2 048 tokens. Items are blocks stored or removed, per
/// second of the thread that reads, decodes, hashes and applies.
void drained(benchmark::State& state) {
  size_t changes = 0;
  for (auto _ : state) {
    Bench bench;
    for (size_t i = 0; i < 6000; ++i) bench.publish(128);
    bench.drain();
    bench.check();
    state.SetIterationTime(bench.sink.cpu_s);
    changes += bench.changes();
  }
  state.SetItemsProcessed(static_cast<int64_t>(changes));
}
BENCHMARK(drained)->UseManualTime()->Iterations(1)->Repetitions(5)->Unit(benchmark::kMillisecond);

/// 200 000 blocks stored a second and as many removed, 16 at a time. The time from an engine's
/// stamp until look-ups see the blocks.
void seen_after(benchmark::State& state) {
  constexpr size_t kBlocks = 16;
  constexpr auto kStep = std::chrono::nanoseconds(1'000'000'000 / (200'000 / kBlocks));
  for (auto _ : state) {
    Bench bench;
    auto due = std::chrono::steady_clock::now();
    for (size_t i = 0; i < 40'000; ++i, due += kStep) {
      while (std::chrono::steady_clock::now() < due) std::this_thread::yield();
      bench.publish(kBlocks);
    }
    bench.drain();
    bench.check();
    std::vector<double>& lags = bench.sink.lags;
    std::ranges::sort(lags);
    state.counters["p50_us"] = lags[lags.size() / 2];
    state.counters["p99_us"] = lags[lags.size() * 99 / 100];
    state.counters["max_us"] = lags.back();
  }
}
BENCHMARK(seen_after)->Iterations(1)->Repetitions(3)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace llmd::kv_precise

BENCHMARK_MAIN();
