#include "metric/registry.h"

#include "metric/buckets.h"
#include "metric/process.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <thread>

namespace llmd::metric {
namespace {

using Values = std::vector<std::string_view>;

const Definition kRequests{.name = "llm_d_epp_request_total",
                           .kind = Kind::kCounter,
                           .help = "[ALPHA] Total number of processed requests.",
                           .labels = {"model_name", "target_model_name", "fairness_id", "priority"},
                           .twins = {{"inference_objective_request_total",
                                      {{"model_name", "model_name"},
                                       {"target_model_name", "target_model_name"},
                                       {"priority", "priority"}}}}};

const Definition kInputTokens{
    .name = "llm_d_epp_request_input_tokens",
    .kind = Kind::kHistogram,
    .help = "[ALPHA] Input token count distribution per request.",
    .labels = {"model_name", "target_model_name", "fairness_id", "priority"},
    .buckets = buckets::kTok,
    .twins = {{"inference_objective_input_tokens",
               {{"model_name", "model_name"}, {"target_model_name", "target_model_name"}}}}};

const Definition kPlain{.name = "queue_size", .kind = Kind::kGauge, .help = "Requests that wait."};

const Definition kByName{
    .name = "hits_total", .kind = Kind::kCounter, .help = "Hits.", .labels = {"name"}};

/// Whether the page has exactly this line.
bool has_line(const std::string& page, const std::string& line) {
  return ("\n" + page).find("\n" + line + "\n") != std::string::npos;
}

TEST(Value, IsSpelledAsPrometheusClientsSpellIt) {
  const double infinity = std::numeric_limits<double>::infinity();
  const struct {
    double value;
    std::string_view text;
  } kCases[] = {
      {0, "0"},
      {-0.0, "0"},
      {1, "1"},
      {-1, "-1"},
      {0.5, "0.5"},
      {0.00205, "0.00205"},
      {0.0001, "0.0001"},
      {0.00001, "1e-05"},
      {524288, "524288"},
      {999999, "999999"},
      {1e6, "1e+06"},
      {1048576, "1.048576e+06"},
      {1073741824, "1.073741824e+09"},
      {1e21, "1e+21"},
      {1e100, "1e+100"},
      {4.7119999999999996e-05, "4.7119999999999996e-05"},
      {0.00023787500000000002, "0.00023787500000000002"},
      {1234567.5, "1.2345675e+06"},
      {-2.5e-7, "-2.5e-07"},
      {infinity, "+Inf"},
      {-infinity, "-Inf"},
      {std::numeric_limits<double>::quiet_NaN(), "NaN"},
  };
  for (const auto& c : kCases) {
    std::string out;
    append_value(out, c.value);
    EXPECT_EQ(out, c.text);
  }
}

TEST(Registry, RendersTheContractsExample) {
  Registry registry(2);
  registry.family(kInputTokens).histogram(Values{"m", "m", "default-flow", "0"}).observe(1500);
  const std::string page = registry.render();
  const std::string series =
      R"(llm_d_epp_request_input_tokens_bucket{fairness_id="default-flow",model_name="m",priority="0",target_model_name="m",le=)";
  EXPECT_TRUE(has_line(page, series + R"("1024"} 0)"));
  EXPECT_TRUE(has_line(page, series + R"("2048"} 1)"));
  EXPECT_TRUE(has_line(page, series + R"("1.048576e+06"} 1)"));
  EXPECT_TRUE(has_line(page, series + R"("+Inf"} 1)"));
  EXPECT_TRUE(has_line(
      page,
      R"(inference_objective_input_tokens_bucket{model_name="m",target_model_name="m",le="2048"} 1)"));
  EXPECT_TRUE(has_line(
      page, R"(inference_objective_input_tokens_sum{model_name="m",target_model_name="m"} 1500)"));
}

TEST(Registry, RendersAWholePage) {
  static constexpr double kBounds[] = {0.1, 1};
  const Definition latency{.name = "latency_seconds",
                           .kind = Kind::kHistogram,
                           .help = "How\nlong \\ far.",
                           .buckets = kBounds};
  Registry registry(1);
  registry.family(kPlain).gauge({}).set(3);
  registry.family(kByName).counter(Values{"b"}).add();
  registry.family(kByName).counter(Values{"a\"\\\n"}).add(2.5);
  const auto histogram = registry.family(latency).histogram({});
  for (const double v : {0.05, 0.1, 0.5, 2.0}) histogram.observe(v);
  EXPECT_EQ(registry.render(),
            "# HELP hits_total Hits.\n"
            "# TYPE hits_total counter\n"
            "hits_total{name=\"a\\\"\\\\\\n\"} 2.5\n"
            "hits_total{name=\"b\"} 1\n"
            "# HELP latency_seconds How\\nlong \\\\ far.\n"
            "# TYPE latency_seconds histogram\n"
            "latency_seconds_bucket{le=\"0.1\"} 2\n"
            "latency_seconds_bucket{le=\"1\"} 3\n"
            "latency_seconds_bucket{le=\"+Inf\"} 4\n"
            "latency_seconds_sum 2.65\n"
            "latency_seconds_count 4\n"
            "# HELP queue_size Requests that wait.\n"
            "# TYPE queue_size gauge\n"
            "queue_size 3\n");
}

TEST(Registry, LeavesOutFamiliesWithoutSeries) {
  Registry registry(1);
  registry.family(kByName);
  EXPECT_EQ(registry.render(), "");
}

TEST(Registry, GivesOneSeriesPerLabelValues) {
  Registry registry(1);
  registry.family(kByName).counter(Values{"a"}).add();
  registry.family(kByName).counter(Values{"a"}).add();
  EXPECT_TRUE(has_line(registry.render(), "hits_total{name=\"a\"} 2"));
}

TEST(Twin, SumsOverTheLabelsItLacks) {
  Registry registry(1);
  auto& family = registry.family(kRequests);
  family.counter(Values{"m", "t", "flow-a", "0"}).add(2);
  family.counter(Values{"m", "t", "flow-b", "0"}).add(3);
  family.counter(Values{"m", "t", "flow-b", "1"}).add(4);
  const std::string page = registry.render();
  const std::string name = "inference_objective_request_total";
  EXPECT_TRUE(has_line(page, name + R"({model_name="m",priority="0",target_model_name="t"} 5)"));
  EXPECT_TRUE(has_line(page, name + R"({model_name="m",priority="1",target_model_name="t"} 4)"));
  EXPECT_TRUE(has_line(page, "# HELP " + name +
                                 " [ALPHA] [Deprecated: Use llm_d_epp_request_total] Total number "
                                 "of processed requests."));
}

TEST(Twin, RenamesLabels) {
  const Definition attempts{
      .name = "a_total",
      .kind = Kind::kCounter,
      .help = "x",
      .labels = {"status", "endpoint_name"},
      .twins = {{"old_a_total", {{"status", "status"}, {"pod_name", "endpoint_name"}}}}};
  Registry registry(1);
  registry.family(attempts).counter(Values{"success", "pod-1"}).add();
  EXPECT_TRUE(has_line(registry.render(), R"(old_a_total{pod_name="pod-1",status="success"} 1)"));
}

TEST(Twin, CanBeSwitchedOff) {
  Registry registry(1);
  registry.family(kRequests).counter(Values{"m", "t", "f", "0"}).add();
  registry.show_twins(false);
  EXPECT_EQ(registry.render().find("inference_objective"), std::string::npos);
}

TEST(Histogram, PutsNotANumberInTheLastBucket) {
  static constexpr double kBounds[] = {1};
  Registry registry(1);
  registry.family({.name = "h", .kind = Kind::kHistogram, .help = "h", .buckets = kBounds})
      .histogram({})
      .observe(std::numeric_limits<double>::quiet_NaN());
  const std::string page = registry.render();
  EXPECT_TRUE(has_line(page, "h_bucket{le=\"1\"} 0"));
  EXPECT_TRUE(has_line(page, "h_count 1"));
}

TEST(Family, ForgetsSeriesByOneLabel) {
  Registry registry(1);
  auto& family = registry.family(kRequests);
  const auto gone = family.counter(Values{"m", "t", "flow-a", "0"});
  gone.add();
  family.counter(Values{"m", "t", "other", "0"}).add();
  family.forget("fairness_id", "flow-a");
  gone.add();
  std::string page = registry.render();
  EXPECT_EQ(page.find("flow-a"), std::string::npos);
  EXPECT_NE(page.find("other"), std::string::npos);
  family.counter(Values{"m", "t", "flow-a", "0"});
  EXPECT_TRUE(has_line(
      registry.render(),
      R"(llm_d_epp_request_total{fairness_id="flow-a",model_name="m",priority="0",target_model_name="t"} 2)"));
}

TEST(Registry, CollectsBeforeEachRenderWhileTheTokenLives) {
  Registry registry(1);
  double value = 1;
  auto token = registry.on_collect([&] { registry.family(kPlain).gauge({}).set(value); });
  EXPECT_TRUE(has_line(registry.render(), "queue_size 1"));
  value = 2;
  EXPECT_TRUE(has_line(registry.render(), "queue_size 2"));
  token.reset();
  value = 3;
  EXPECT_TRUE(has_line(registry.render(), "queue_size 2"));
}

TEST(Registry, TokenMayOutliveTheRegistry) {
  std::shared_ptr<void> token;
  {
    Registry registry(1);
    token = registry.on_collect([] {});
  }
  token.reset();
}

TEST(Registry, SumsCellsOfAllThreads) {
  constexpr int kLoops = 2, kRounds = 20'000;
  Registry registry(kLoops);
  const auto counter = registry.family(kByName).counter(Values{"a"});
  const auto tokens = registry.family(kInputTokens).histogram(Values{"m", "m", "f", "0"});
  std::atomic<bool> done{false};
  {
    std::vector<std::jthread> threads;
    // Cells 1 and 2 belong to one thread each; two threads share cell 0, one of them through a cell
    // that is too large.
    for (const size_t cell : {1, 2, 0, 99})
      threads.emplace_back([&, cell] {
        set_thread_cell(cell);
        for (int i = 0; i < kRounds; ++i) {
          counter.add();
          tokens.observe(100);
        }
      });
    std::jthread scraper([&] {
      while (!done.load()) registry.render();
    });
    threads.clear();
    done = true;
  }
  const std::string page = registry.render();
  EXPECT_TRUE(has_line(page, "hits_total{name=\"a\"} 80000"));
  EXPECT_TRUE(has_line(
      page,
      R"(inference_objective_input_tokens_count{model_name="m",target_model_name="m"} 80000)"));
  EXPECT_TRUE(has_line(
      page, R"(inference_objective_input_tokens_sum{model_name="m",target_model_name="m"} 8e+06)"));
}

TEST(Registry, MakesSeriesWhileOthersRender) {
  Registry registry(1);
  std::atomic<bool> done{false};
  std::jthread maker([&] {
    for (int i = 0; i < 300; ++i) {
      const std::string name = std::to_string(i);
      registry.family(kByName).counter(Values{name}).add();
      if (i % 3 == 0) registry.family(kByName).forget("name", name);
    }
    done = true;
  });
  while (!done.load()) registry.render();
  const std::string page = registry.render();
  EXPECT_FALSE(has_line(page, "hits_total{name=\"297\"} 1"));
  EXPECT_TRUE(has_line(page, "hits_total{name=\"298\"} 1"));
}

TEST(LabelGuard, FollowsTheContractsVector) {
  LabelGuard guard(2);
  EXPECT_EQ(guard.admit("a"), "a");
  EXPECT_EQ(guard.admit("b"), "b");
  EXPECT_EQ(guard.admit("c"), "other");
  EXPECT_EQ(guard.admit("a"), "a");
  EXPECT_EQ(guard.admit(""), "");
  guard.pin("late");
  EXPECT_EQ(guard.admit("late"), "late");
  EXPECT_EQ(guard.admit("d"), "other");
}

TEST(LabelGuard, DoesNotCountPinnedValues) {
  LabelGuard guard(1);
  guard.pin("rewrite");
  EXPECT_EQ(guard.admit("rewrite"), "rewrite");
  EXPECT_EQ(guard.admit("a"), "a");
  EXPECT_EQ(guard.admit("b"), "other");
}

TEST(Buckets, AscendInEverySet) {
  const std::span<const double> kSets[] = {
      buckets::kGen,  buckets::kTtft,   buckets::kTpot,    buckets::kPtpot,    buckets::kNtpot,
      buckets::kItl,  buckets::kFast,   buckets::kReqProc, buckets::kRespProc, buckets::kQDur,
      buckets::kConf, buckets::kStream, buckets::kPredLat, buckets::kDef,      buckets::kSz,
      buckets::kRsz,  buckets::kTok,    buckets::kOut,     buckets::kHitr,     buckets::kHitb};
  for (const auto set : kSets) EXPECT_TRUE(std::ranges::is_sorted(set, std::less_equal<>()));
}

TEST(Buckets, EndWhereTheCatalogueSays) {
  EXPECT_EQ(buckets::kSz.front(), 64);
  EXPECT_EQ(buckets::kSz.back(), 1073741824);
  EXPECT_EQ(buckets::kOut.back(), 8192);
  EXPECT_EQ(buckets::kHitb.back(), 65536);
  EXPECT_EQ(std::size(buckets::kTok), 19u);
  EXPECT_EQ(std::size(buckets::kRsz), 15u);
  EXPECT_EQ(std::size(buckets::kPtpot), 35u);
}

TEST(Process, ExposesWhatTheSystemKnows) {
  Registry registry(1);
  const auto token = collect_process(registry);
  const std::string page = registry.render();
  for (const auto name : {"process_resident_memory_bytes ", "process_cpu_seconds_total ",
                          "process_open_fds ", "process_max_fds ", "process_start_time_seconds ",
                          "process_threads ", "process_virtual_memory_bytes ",
                          "llmd_soft_check_failures_total ", "llmd_log_lines_dropped_total "})
    EXPECT_NE(page.find("\n" + std::string(name)), std::string::npos) << name;
  EXPECT_FALSE(has_line(page, "process_resident_memory_bytes 0"));
  EXPECT_TRUE(has_line(page, "# TYPE process_cpu_seconds_total counter"));
}

}  // namespace
}  // namespace llmd::metric
