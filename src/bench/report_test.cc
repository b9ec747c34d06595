#include "bench/report.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace llmd::bench {
namespace {

SecondRequest request(bool returned, double ttft_ms, double hits, double queries, double prefill) {
  return {
      .returned = returned,
      .ttft_ms = ttft_ms,
      .engine = {
          .requests = 1, .cache_hits = hits, .cache_queries = queries, .prefill_tokens = prefill}};
}

TEST(Summarize, SumsBeforeRatios) {
  const auto f = summarize(
      std::vector{request(true, 100, 900, 1000, 100), request(false, 300, 0, 3000, 3000)});
  EXPECT_EQ(f.requests, 2);
  EXPECT_EQ(f.returned, 1);
  EXPECT_DOUBLE_EQ(f.return_rate, 0.5);
  EXPECT_DOUBLE_EQ(f.token_hit_rate, 900.0 / 4000);
  EXPECT_DOUBLE_EQ(f.prefill_tokens_mean, 1550);
  EXPECT_DOUBLE_EQ(f.ttft_p50_ms, 200);
  EXPECT_DOUBLE_EQ(f.ttft_p95_ms, 290);
}

TEST(Summarize, OfNothingIsAllZero) {
  EXPECT_EQ(summarize({}).requests, 0);
  EXPECT_EQ(summarize({}).token_hit_rate, 0);
}

TEST(ReportJson, HasExactlyTheAgreedKeys) {
  const Experiment experiment{{request(false, 2000, 0, 10, 10)}, {request(true, 100, 9, 10, 1)}, 4};
  const auto report = nlohmann::json::parse(report_json(experiment));
  EXPECT_EQ(report.size(), 3u);
  EXPECT_EQ(report["time_scale"], 4);
  for (const char* policy : {"random", "prefix"}) {
    EXPECT_EQ(report[policy].size(), 6u);
    for (const char* key : {"return_rate", "token_hit_rate", "ttft_p50_ms", "ttft_p95_ms",
                            "prefill_tokens_mean", "requests"})
      EXPECT_TRUE(report[policy].contains(key)) << policy << " " << key;
  }
  EXPECT_EQ(report["prefix"]["return_rate"], 1.0);
  EXPECT_EQ(report["prefix"]["requests"], 1);
}

TEST(ReportTable, ShowsMeasuredBesidePublished) {
  const Experiment experiment{{request(false, 2000, 0, 10, 10)}, {request(true, 100, 9, 10, 1)}, 4};
  const std::string table = report_table(experiment);
  for (const char* text :
       {"0/1 (0.0 %)", "1/1 (100.0 %)", "17/30 (56.7 %)", "30/30 (100.0 %)", "90.00 %", "56.56 %",
        "99.60 %", "155.1 / 2018.0 ms", "127.3 / 159.2 ms", "2261.5", "21.0"})
    EXPECT_NE(table.find(text), std::string::npos) << text << "\n" << table;
}

}  // namespace
}  // namespace llmd::bench
