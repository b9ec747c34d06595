#include "flow_stage.h"
#include "idle_fleet.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>

namespace llmd::regress {
namespace {

/// llm-d-router#1599, #2066: requests of one burst were decided on the same stale state.

std::map<std::string, int> burst(conformance::Picker& picker, size_t requests, auto prompt_of) {
  std::map<std::string, int> picks;
  for (size_t i = 0; i < requests; ++i) {
    const auto step = completion("probe", prompt_of(i));
    ++picks[picker.run(step).picked];
  }
  return picks;
}

TEST(Case19, BurstWithoutPrefixSpreadsEvenly) {
  conformance::Picker picker(idle_fleet(8));
  const auto picks = burst(picker, 64, [](size_t i) { return "\"" + std::to_string(i) + "\""; });
  ASSERT_EQ(picks.size(), 8u);
  for (const auto& [endpoint, n] : picks) EXPECT_EQ(n, 8) << endpoint;
}

TEST(Case19, BurstOfOnePromptStaysTogether) {
  conformance::Picker picker(idle_fleet(8));
  const std::string prompt = "\"" + std::string(16 * 1024, 'x') + "\"";
  EXPECT_LE(burst(picker, 16, [&](size_t) { return prompt; }).size(), 2u);
}

/// llm-d-router#2295: between two scrapes a gate let in whatever came.
TEST(Case19, AGateCountsWhatNoMetricsShowYet) {
  FlowStage stage("plugins: [{type: utilization-detector}, {type: active-request-scorer}]\n", 2);
  for (size_t i : {0, 1}) stage.scraped(i, {});
  std::vector<FlowStage::Client*> burst;
  for (int i = 0; i < 64; ++i) burst.push_back(&stage.come());
  const auto sent = [&] { return std::ranges::count_if(burst, &FlowStage::Client::sent); };
  EXPECT_EQ(sent(), 10) << "five an endpoint";
  stage.advance(std::chrono::milliseconds(60));
  EXPECT_EQ(sent(), 10);
  // A scrape finds that all of them run.
  for (size_t i : {0, 1}) stage.scraped(i, {.running_requests_size = 5});
  stage.advance(std::chrono::milliseconds(60));
  EXPECT_EQ(sent(), 20);
}

}  // namespace
}  // namespace llmd::regress
