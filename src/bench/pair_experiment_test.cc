#include "bench/pair_experiment.h"

#include "bench/open_loop.h"
#include "sim/server.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace llmd::bench {
namespace {

/// Simulated servers in this process, reached over real sockets.
struct Servers : ::testing::Test {
  void start(std::vector<std::string> flags) {
    flags.insert(flags.end(),
                 {"--model", "m", "--port", "0", "--host", "127.0.0.1", "--seed", "1"});
    const auto settings = sim::parse_settings(flags, sim::process_environment());
    ASSERT_TRUE(settings) << settings.error().message;
    auto started = sim::Fleet::start(*settings);
    ASSERT_TRUE(started) << started.error().message;
    fleet = std::move(*started);
    for (const auto& endpoint : fleet->endpoints())
      targets.push_back(*Target::parse(fmt::format("http://127.0.0.1:{}", endpoint.port)));
  }

  std::unique_ptr<sim::Fleet> fleet;
  std::vector<Target> targets;
  BlockingClient client{std::chrono::seconds(30)};
  Rng rng{3};
};

using PairExperiment = Servers;
using BlockingClientTest = Servers;
using OpenLoop = Servers;

TEST_F(PairExperiment, SeesTheSecondRequestFindTheFirstOnesCache) {
  start({"--enable-kvcache", "--max-model-len", "4096"});
  const auto pairs = make_context_pairs(rng, 3, 800);
  const PairSetting setting{
      .router = targets[0], .engines = targets, .model = "m", .id_prefix = "t"};
  int heard = 0;
  const auto seconds = run_pairs(client, setting, pairs, 2, [&](const SecondRequest&) { ++heard; });
  ASSERT_TRUE(seconds) << seconds.error().message;
  ASSERT_EQ(seconds->size(), 3u);
  EXPECT_EQ(heard, 3);
  for (const auto& second : *seconds) {
    EXPECT_EQ(second.round, 2);
    EXPECT_TRUE(second.returned);
    EXPECT_EQ(second.engine.requests, 1);
    EXPECT_GT(second.engine.cache_hits, 0.95 * second.engine.cache_queries);
    EXPECT_EQ(second.engine.prefill_tokens, second.engine.cache_queries - second.engine.cache_hits);
    EXPECT_GT(second.ttft_ms, 0);
  }
}

TEST_F(PairExperiment, StartsColdAfterAReset) {
  start({"--enable-kvcache", "--max-model-len", "4096"});
  const auto pairs = make_context_pairs(rng, 1, 800);
  const std::string body = chat_body("m", pairs[0].first);
  ASSERT_TRUE(client.chat(targets[0], body, "a"));
  ASSERT_TRUE(reset_prefix_caches(client, targets));
  const auto before = read_counters(client.get(targets[0], "/metrics")->body);
  ASSERT_TRUE(client.chat(targets[0], body, "b"));
  const auto added = read_counters(client.get(targets[0], "/metrics")->body) - before;
  EXPECT_EQ(added.cache_hits, 0);
}

TEST_F(PairExperiment, SaysWhichRequestWasRefused) {
  start({"--max-model-len", "64"});
  const auto pairs = make_context_pairs(rng, 1, 800);
  const PairSetting setting{
      .router = targets[0], .engines = targets, .model = "m", .id_prefix = "t"};
  const auto seconds = run_pairs(client, setting, pairs, 1);
  ASSERT_FALSE(seconds);
  EXPECT_NE(seconds.error().message.find("request t-1-1: status 400"), std::string::npos)
      << seconds.error().message;
}

TEST_F(BlockingClientTest, ReadsAnswersWhole) {
  start({});
  const auto models = client.get(targets[0], "/v1/models");
  ASSERT_TRUE(models);
  EXPECT_EQ(models->status, 200);
  EXPECT_NE(models->body.find("\"m\""), std::string::npos);
  const auto missing = client.get(targets[0], "/no/such/path");
  ASSERT_TRUE(missing);
  EXPECT_EQ(missing->status, 404);
}

TEST_F(BlockingClientTest, ReportsAServerThatIsNotThere) {
  start({});
  fleet.reset();
  const auto answer = client.get(targets[0], "/health");
  ASSERT_FALSE(answer);
  EXPECT_NE(answer.error().message.find("cannot connect"), std::string::npos)
      << answer.error().message;
}

TEST(Target, ReadsUrls) {
  EXPECT_EQ(Target::parse("http://127.0.0.1:8000")->address.to_string(), "127.0.0.1:8000");
  EXPECT_EQ(Target::parse("http://127.0.0.1/v1")->address.to_string(), "127.0.0.1:80");
  EXPECT_EQ(Target::parse("http://[::1]:9")->address.to_string(), "[::1]:9");
  for (const char* bad : {"127.0.0.1:80", "https://127.0.0.1", "http://", "http://127.0.0.1:0",
                          "http://127.0.0.1:70000", "http://127.0.0.1:x", "http://:80"})
    EXPECT_FALSE(Target::parse(bad)) << bad;
}

TEST_F(OpenLoop, CountsEveryArrivalOnce) {
  start({"--max-num-seqs", "64"});
  const auto result = run_open_loop({.target = targets[0],
                                     .model = "m",
                                     .rate = 400,
                                     .duration = std::chrono::milliseconds(250),
                                     .families = 3,
                                     .context_tokens = 60,
                                     .max_tokens = 4,
                                     .seed = 5});
  EXPECT_GT(result.sent, 40);
  EXPECT_EQ(result.ok, result.sent);
  EXPECT_EQ(result.ttft_ms.size(), static_cast<size_t>(result.ok));
  EXPECT_GE(result.output_tokens, result.ok);
}

TEST_F(OpenLoop, RunsSeveralLoadsAtOnce) {
  start({"--max-num-seqs", "64"});
  OpenLoopOptions load{.target = targets[0],
                       .model = "m",
                       .headers = {{"X-Return-Error", "429"}},
                       .rate = 400,
                       .duration = std::chrono::milliseconds(100),
                       .families = 1,
                       .context_tokens = 60,
                       .max_tokens = 2};
  OpenLoopOptions later = load;
  later.headers.clear();
  later.start = std::chrono::milliseconds(100);
  const OpenLoopOptions loads[] = {load, later};
  const auto results = run_open_loops(loads);
  ASSERT_EQ(results.size(), 2u);
  EXPECT_GT(results[0].sent, 0);
  EXPECT_EQ(results[0].refused, results[0].sent);
  EXPECT_GT(results[1].sent, 0);
  EXPECT_EQ(results[1].ok, results[1].sent);
  ASSERT_EQ(results[1].sent_s.size(), results[1].ttft_ms.size());
  for (const double at : results[1].sent_s) EXPECT_GE(at, 0.1);
}

TEST_F(OpenLoop, ReplaysATrace) {
  start({"--enable-kvcache", "--max-num-seqs", "64", "--max-model-len", "4096"});
  const Trace trace = {
      {.at = Nanos(0), .input_tokens = 1000, .output_tokens = 3, .pieces = {1, 2}},
      {.at = std::chrono::seconds(2), .input_tokens = 1000, .output_tokens = 3, .pieces = {1, 3}},
      {.at = std::chrono::hours(1), .input_tokens = 10, .output_tokens = 1, .pieces = {4}}};
  const auto result = run_open_loop({.target = targets[0],
                                     .model = "m",
                                     .trace = &trace,
                                     .speed = 10,
                                     .duration = std::chrono::minutes(1),
                                     .max_tokens = 2});
  EXPECT_EQ(result.sent, 2);  // the third would come after the end
  EXPECT_EQ(result.ok, 2);
  EXPECT_EQ(result.output_tokens, 4);
  EXPECT_EQ(result.prompt_tokens, 2000);
  EXPECT_EQ(result.cached_tokens, 512);
  ASSERT_EQ(result.sent_s.size(), 2u);
  EXPECT_GE(result.sent_s[1], 0.2);
}

TEST_F(OpenLoop, CountsRefusals) {
  start({"--failure-injection-rate", "100", "--failure-types", "rate_limit"});
  const auto result = run_open_loop({.target = targets[0],
                                     .model = "m",
                                     .rate = 400,
                                     .duration = std::chrono::milliseconds(50),
                                     .families = 1,
                                     .context_tokens = 60});
  EXPECT_GT(result.sent, 0);
  EXPECT_EQ(result.refused, result.sent);
  EXPECT_EQ(result.why, (std::map<std::string, int64_t>{{"status 429", result.sent}}));
}

TEST_F(OpenLoop, DoesNotSendBeyondItsLimit) {
  start({"--time-to-first-token", "300ms"});
  const auto result = run_open_loop({.target = targets[0],
                                     .model = "m",
                                     .rate = 1000,
                                     .duration = std::chrono::milliseconds(50),
                                     .families = 1,
                                     .context_tokens = 60,
                                     .in_flight_max = 2});
  EXPECT_EQ(result.sent, 2);
  EXPECT_GT(result.not_sent, 0);
}

}  // namespace
}  // namespace llmd::bench
