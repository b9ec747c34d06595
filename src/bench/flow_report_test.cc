#include "bench/flow_report.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace llmd::bench {
namespace {

/// Ten requests: eight answered, the last of them late; at twice the speed of model time.
FlowExperiment sample() {
  OpenLoopResult slow{
      .sent = 10, .ok = 8, .refused = 1, .timed_out = 1, .output_tokens = 80, .seconds = 4};
  for (int i = 0; i < 8; ++i) {
    slow.sent_s.push_back(i * 0.5);
    slow.ttft_ms.push_back(i < 7 ? 100 : 1500);
  }
  slow.e2e_ms.assign(8, 2000);
  OpenLoopResult fast = slow;
  fast.e2e_ms.assign(8, 1000);
  fast.ttft_ms.back() = 100;
  return {.title = "a title",
          .runs = {{{"without", "without it", {{"tenant a", slow}, {"batch", {}}}},
                    {"with", "with it", {{"tenant a", fast}, {"batch", {}}}}}},
          .time_scale = 2,
          .objective_ms = 2000};
}

TEST(FlowReport, FiguresAreInModelTime) {
  const auto experiment = sample();
  const auto t = summarize(experiment.runs[0], experiment)[0];
  EXPECT_EQ(t.requests, 10);
  EXPECT_EQ(t.answered, 8);
  EXPECT_EQ(t.refused, 1);
  EXPECT_EQ(t.gave_up, 1);
  EXPECT_EQ(t.ttft_p50_ms, 200);
  EXPECT_NEAR(t.in_time, 0.7, 1e-9) << "what is not answered is not in time";
  EXPECT_NEAR(t.tokens_per_s, 10, 1e-9);
}

TEST(FlowReport, JsonHasExactlyTheAgreedKeys) {
  const auto report = nlohmann::json::parse(flow_json(sample()));
  EXPECT_EQ(report.size(), 4u);
  EXPECT_EQ(report["time_scale"], 2);
  EXPECT_EQ(report["objective_ms"], 2000);
  for (const char* run : {"without", "with"}) {
    ASSERT_EQ(report[run].size(), 2u);
    const auto& tenant = report[run]["tenant a"];
    EXPECT_EQ(tenant.size(), 9u);
    for (const char* key : {"requests", "answered", "refused", "gave_up", "ttft_p50_ms",
                            "ttft_p99_ms", "e2e_p99_ms", "in_time", "tokens_per_s"})
      EXPECT_TRUE(tenant.contains(key)) << key;
  }
}

TEST(FlowReport, TableShowsBothRuns) {
  const auto table = flow_table(sample());
  for (const char* text :
       {"without it", "with it", "tenant a", "70.0 %", "80.0 %", "0.20 s",
        "output tokens/s of all: 10 without it, 10 with it",
        "tenant a, P99 with it by P99 without it: first token 0.07, whole answer 0.50"})
    EXPECT_NE(table.find(text), std::string::npos) << text << "\n" << table;
}

TEST(FlowReport, PictureShowsEveryAnswerOnce) {
  const std::string picture = flow_picture(sample(), "how & why");
  size_t circles = 0;
  for (size_t at = 0; (at = picture.find("<circle", at)) != std::string::npos; ++at) ++circles;
  EXPECT_EQ(circles, 16u);
  EXPECT_NE(picture.find("how &amp; why"), std::string::npos);
  EXPECT_NE(picture.find(">80 % with<"), std::string::npos);
}

TEST(FlowReport, PictureSurvivesAnEmptyExperiment) {
  const std::string picture = flow_picture({}, "");
  EXPECT_EQ(picture.find("nan"), std::string::npos);
  EXPECT_TRUE(picture.ends_with("</svg>\n"));
}

TEST(FlowReport, MergesTheLoadsOfATenant) {
  auto all = sample().runs[0].tenants[0].result;
  merge(all, sample().runs[1].tenants[0].result);
  EXPECT_EQ(all.sent, 20);
  EXPECT_EQ(all.ttft_ms.size(), 16u);
  EXPECT_EQ(all.seconds, 4);
}

}  // namespace
}  // namespace llmd::bench
