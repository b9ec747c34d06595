#include "sim/engine.h"

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <numeric>

namespace llmd::sim {
namespace {

using namespace std::chrono_literals;

/// Runs an engine in virtual time and notes what each sequence did.
class World : public SequenceOwner {
 public:
  explicit World(const EngineConfig& config) : engine(config) {}

  Sequence& submit(
      uint32_t prompt_tokens, uint32_t output, uint32_t first_token = 0,
      const std::function<void(Sequence&)>& prepare = [](Sequence&) {}) {
    auto& prompt = prompts_.emplace_back(prompt_tokens);
    std::iota(prompt.begin(), prompt.end(), first_token);
    Sequence& s = sequences_.emplace_back();
    s.owner = this;
    s.prompt = prompt;
    s.output_tokens = output;
    prepare(s);
    engine.submit(s, now);
    return s;
  }
  Sequence& submit_adapter(int32_t adapter) {
    return submit(1, 1, 0, [&](Sequence& s) { s.adapter = adapter; });
  }

  void on_progress(Sequence& s) override {
    if (s.ended()) finished.push_back(&s);
    progress.emplace_back(&s, now);
  }

  void run(TimePoint end = TimePoint::max()) {
    while (auto due = engine.next_due()) {
      if (*due > end) break;
      now = std::max(now, *due);
      engine.advance(now);
    }
  }
  void run_until(TimePoint end) {
    run(end);
    now = end;
  }

  Engine engine;
  TimePoint now{};
  std::vector<Sequence*> finished;
  std::vector<std::pair<Sequence*, TimePoint>> progress;

 private:
  std::deque<std::vector<uint32_t>> prompts_;
  std::deque<Sequence> sequences_;
};

EngineConfig one_at_a_time() {
  EngineConfig c;
  c.model = "m";
  c.max_num_seqs = 1;
  c.max_waiting = 2;
  c.latency.time_to_first_token = 100ms;
  c.latency.inter_token_latency = 10ms;
  return c;
}

TEST(Engine, PacesTokensFromPrefillAndGaps) {
  World w(one_at_a_time());
  Sequence& s = w.submit(8, 3);
  w.run();
  ASSERT_EQ(w.progress.size(), 3u);
  EXPECT_EQ(w.progress[0].second, TimePoint(100ms));
  EXPECT_EQ(w.progress[1].second, TimePoint(110ms));
  EXPECT_EQ(w.progress[2].second, TimePoint(120ms));
  EXPECT_TRUE(s.ended());
  EXPECT_EQ(w.engine.counters().generation_tokens, 3u);
  EXPECT_EQ(w.engine.counters().running, 0u);
}

TEST(Engine, QueuesFirstInFirstOut) {
  World w(one_at_a_time());
  Sequence& a = w.submit(8, 1);
  Sequence& b = w.submit(8, 1);
  Sequence& c = w.submit(8, 1);
  EXPECT_EQ(w.engine.counters().running, 1u);
  EXPECT_EQ(w.engine.counters().waiting, 2u);
  EXPECT_FALSE(w.engine.accepts(1));
  w.run();
  EXPECT_EQ(w.finished, (std::vector<Sequence*>{&a, &b, &c}));
  EXPECT_EQ(c.first_token, TimePoint(300ms));
  EXPECT_DOUBLE_EQ(w.engine.counters().queue_time.sum(), 0.3);
  EXPECT_DOUBLE_EQ(w.engine.counters().time_to_first_token.sum(), 0.6);
  EXPECT_DOUBLE_EQ(w.engine.counters().prefill_time.sum(), 0.3);
}

TEST(Engine, DeadlinesDoNotDriftWhenCalledLate) {
  World w(one_at_a_time());
  w.submit(8, 2);
  Sequence& b = w.submit(8, 2);
  w.engine.advance(TimePoint(10s));
  EXPECT_EQ(b.first_token, TimePoint(210ms));
  EXPECT_EQ(w.finished.size(), 2u);
}

TEST(Engine, StretchesWithLoad) {
  EngineConfig c = one_at_a_time();
  c.max_num_seqs = 3;
  c.latency.time_factor_under_load = 3;
  World w(c);
  Sequence& a = w.submit(8, 1);
  Sequence& b = w.submit(8, 1);
  Sequence& d = w.submit(8, 1);
  w.run();
  EXPECT_EQ(a.first_token, TimePoint(100ms));
  EXPECT_EQ(b.first_token, TimePoint(200ms));
  EXPECT_EQ(d.first_token, TimePoint(300ms));
}

TEST(Engine, AbortFreesTheSlotForTheNext) {
  World w(one_at_a_time());
  Sequence& a = w.submit(8, 100);
  Sequence& b = w.submit(8, 1);
  Sequence& c = w.submit(8, 1);
  w.run_until(TimePoint(150ms));
  w.engine.abort(c, w.now);
  w.engine.abort(a, w.now);
  EXPECT_TRUE(a.ended());
  EXPECT_EQ(w.engine.counters().waiting, 0u);
  w.run();
  EXPECT_EQ(w.finished, std::vector<Sequence*>{&b});
  EXPECT_EQ(b.first_token, TimePoint(250ms));
  EXPECT_EQ(w.engine.counters().finished[size_t(FinishReason::kAbort)], 2u);
  EXPECT_EQ(w.engine.counters().finished[size_t(FinishReason::kStop)], 1u);
}

TEST(Engine, ReportsEachTokenOnlyWhenAsked) {
  EngineConfig c = one_at_a_time();
  World w(c);
  Sequence& s = w.submit(8, 50);
  s.each_token = false;
  w.run();
  EXPECT_EQ(w.progress.size(), 1u);
  EXPECT_EQ(s.emitted, 50u);
  EXPECT_EQ(w.progress[0].second, TimePoint(100ms + 49 * 10ms));
}

/// The demonstration's servers: see preset "demo".
EngineConfig demo() {
  EngineConfig c;
  c.model = "m";
  c.max_num_seqs = 1;
  c.max_model_len = 8192;
  c.prefix_cache = true;
  c.kv_cache_blocks = 21840 / 16;
  c.latency.prefill_overhead = 125ms;
  c.latency.prefill_time_per_token = 355us;
  c.latency.inter_token_latency = 20ms;
  return c;
}

TEST(Engine, PrefillFollowsUncachedTokens) {
  World w(demo());
  Sequence& cold = w.submit(5200, 32);
  w.run();
  const Nanos cold_time = cold.first_token - cold.arrived;
  EXPECT_GE(cold_time, 1900ms);
  EXPECT_LE(cold_time, 2000ms);
  w.now += 1s;
  Sequence& hit = w.submit(5200, 32);
  w.run();
  EXPECT_EQ(hit.cached_tokens, 5184u);
  EXPECT_NEAR(millis(hit.first_token - hit.arrived), 130, 3);
  const Counters& n = w.engine.counters();
  EXPECT_EQ(n.prefix_cache_queries, 10400u);
  EXPECT_EQ(n.prefix_cache_hits, 5184u);
  EXPECT_EQ(n.prefill_kv_computed_tokens.count(), 2u);
  EXPECT_EQ(n.prefill_kv_computed_tokens.sum(), 5200 + 16);
  EXPECT_EQ(n.prompt_tokens, 10400u);
}

TEST(Engine, ForgetsTheOldestPromptsWhenTheCacheIsFull) {
  World w(demo());
  for (uint32_t i = 0; i < 5; ++i) w.submit(5200, 1, i * 100000);
  w.run();
  Sequence& oldest = w.submit(5200, 1, 0);
  w.run();
  // 1365 blocks hold four prompts of 325 and the first 65 blocks of the oldest.
  EXPECT_EQ(oldest.cached_tokens, 65u * 16);
}

TEST(Engine, FailsWhatTheCacheCannotHold) {
  EngineConfig c = demo();
  c.kv_cache_blocks = 4;
  World w(c);
  Sequence& s = w.submit(200, 5);
  w.run();
  EXPECT_EQ(s.state, Sequence::State::kNoCapacity);
  EXPECT_EQ(w.engine.counters().finished[size_t(FinishReason::kError)], 1u);
  EXPECT_EQ(w.engine.counters().running, 0u);
  EXPECT_EQ(w.engine.counters().generation_tokens, 0u);
}

TEST(Engine, EndsAtOnceBelowTheCacheThreshold) {
  World w(demo());
  const auto half = [](Sequence& s) { s.cache_hit_threshold = 0.5; };
  Sequence& miss = w.submit(160, 5, 0, half);
  w.run();
  EXPECT_EQ(miss.finish, FinishReason::kCacheThreshold);
  EXPECT_EQ(miss.emitted, 0u);
  EXPECT_EQ(w.now, TimePoint());
  // The prompt was admitted to the cache all the same.
  Sequence& hit = w.submit(160, 5, 0, half);
  w.run();
  EXPECT_EQ(hit.finish, FinishReason::kStop);
  EXPECT_EQ(hit.emitted, 5u);
}

TEST(Engine, LetsOthersPassASequenceWhoseAdapterCannotBeResident) {
  EngineConfig c = one_at_a_time();
  c.max_num_seqs = 2;
  c.max_waiting = 10;
  c.max_loras = 1;
  World w(c);
  w.engine.load_adapter("x", "");
  w.engine.load_adapter("y", "");
  Sequence& x = w.submit_adapter(0);
  Sequence& y = w.submit_adapter(1);
  Sequence& base = w.submit_adapter(-1);
  EXPECT_EQ(w.engine.adapters()[1].waiting, 1u);
  w.run();
  EXPECT_EQ(x.started, TimePoint(0ms));
  EXPECT_EQ(base.started, TimePoint(0ms));
  EXPECT_EQ(y.started, TimePoint(100ms));
  EXPECT_TRUE(w.engine.adapters()[1].resident);
  EXPECT_FALSE(w.engine.adapters()[0].resident);
}

TEST(Engine, RemotePrefillWaitsForTheTransferInstead) {
  EngineConfig c = one_at_a_time();
  c.latency.kv_cache_transfer_latency = 2ms;
  World w(c);
  Sequence& s = w.submit(10, 1, 0, [](Sequence& q) { q.remote_prefill = true; });
  w.run();
  EXPECT_EQ(s.first_token, TimePoint(2ms));
}

TEST(Engine, RepeatsExactlyForTheSameDraws) {
  EngineConfig c = one_at_a_time();
  c.max_num_seqs = 4;
  c.latency.inter_token_latency_std_dev = 3ms;
  auto last_token_times = [&] {
    World w(c);
    for (uint64_t i = 0; i < 4; ++i)
      w.submit(8, 20, 0, [&](Sequence& s) { s.draws = Draws(1, i); });
    w.run();
    std::vector<TimePoint> times;
    for (const auto& [s, at] : w.progress) times.push_back(at);
    return times;
  };
  EXPECT_EQ(last_token_times(), last_token_times());
}

TEST(OneTwoFive, StopsAtTheContextLength) {
  EXPECT_EQ(one_two_five(1024), (std::vector<double>{1, 2, 5, 10, 20, 50, 100, 200, 500, 1000}));
  EXPECT_EQ(one_two_five(4096).back(), 2000);
}

}  // namespace
}  // namespace llmd::sim
