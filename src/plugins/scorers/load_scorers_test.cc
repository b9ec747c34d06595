#include "schedule/attributes.h"
#include "schedule/testing.h"

#include <gtest/gtest.h>

namespace llmd::plugins {
const plugin::Descriptor& active_request_scorer();
const plugin::Descriptor& token_load_scorer();

namespace {

using schedule::InFlightLoad;
using schedule::Scorer;
using schedule::UncachedTokens;
using schedule::testing::Harness;
using Doubles = std::vector<double>;

constexpr auto kProducer = "inflight-load-producer";

Doubles active_scores(const std::vector<int64_t>& requests, std::string_view parameters = "") {
  Harness harness(requests.size());
  const auto load = harness.provide<InFlightLoad>(kProducer);
  for (size_t i = 0; i < requests.size(); ++i) load[i].requests = requests[i];
  return harness.scores(harness.make<Scorer>(active_request_scorer(), parameters));
}

void expect_near(const Doubles& got, const Doubles& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-15) << i;
}

TEST(ActiveRequestScorer, RatesByDistanceToTheBusiest) {
  expect_near(active_scores({0, 1, 4, 10}), {1, .9, .6, 0});
  expect_near(active_scores({3, 3}), {0, 0});
}

TEST(ActiveRequestScorer, RatesIdleEndpointsOneAndCapsBusyOnes) {
  expect_near(active_scores({0, 1, 4, 10}, "{idleThreshold: 1, maxBusyScore: 0.5}"), {1, 1, .3, 0});
}

TEST(ActiveRequestScorer, ReplacesParametersOutOfRange) {
  expect_near(active_scores({0, 1, 4, 10}, "{idleThreshold: -3, maxBusyScore: 1.5}"),
              {1, .9, .6, 0});
}

TEST(ActiveRequestScorer, TakesEveryoneForIdleWithoutTheAttribute) {
  Harness harness(2);
  expect_near(harness.scores(harness.make<Scorer>(active_request_scorer())), {1, 1});
}

TEST(ActiveRequestScorer, RequiresTheNamedProducer) {
  Harness harness(1);
  harness.make<Scorer>(active_request_scorer(), "{inFlightLoadProducerName: mine}");
  const auto& edge = harness.wiring.edges().at(0);
  EXPECT_EQ(edge.key, "InFlightLoadDataKey/mine");
  EXPECT_EQ(edge.kind, schedule::Wiring::Edge::Kind::kRequires);
}

TEST(TokenLoadScorer, FallsFromOneToZeroAtTheThreshold) {
  Harness harness(6);
  const auto load = harness.provide<InFlightLoad>(kProducer);
  const int64_t tokens[] = {0, 4096, 1048576, 4194304, 9999999, -5};
  for (size_t i = 0; i < 6; ++i) load[i].tokens = tokens[i];
  expect_near(harness.scores(harness.make<Scorer>(token_load_scorer())),
              {1, .9990234375, .75, 0, 0, 1});
}

TEST(TokenLoadScorer, AddsWhatTheRequestWouldPrefill) {
  Harness harness(2);
  const auto load = harness.provide<InFlightLoad>(kProducer);
  load[0].tokens = load[1].tokens = 100;
  const auto uncached = harness.provide<UncachedTokens>(kProducer);
  uncached[1].tokens = 400;
  const auto& scorer = harness.make<Scorer>(token_load_scorer(), "{queueThresholdTokens: 1000}");
  expect_near(harness.scores(scorer), {.9, .5});
}

}  // namespace
}  // namespace llmd::plugins
