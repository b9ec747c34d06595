#include "flow_stage.h"

#include <gtest/gtest.h>

/// What spec 03 §13 asks of a whole pool under flow control.
namespace llmd::regress {
namespace {

using namespace std::chrono_literals;

TEST(FlowWholePool, WakesAtOnceWhereItCountsItself) {
  FlowStage stage(places(2, ""), 0);
  auto& waits = stage.come();
  stage.advance(10s);
  EXPECT_FALSE(waits.sent);
  stage.set_endpoints(1);
  EXPECT_TRUE(waits.sent);
}

TEST(FlowWholePool, WakesWithTheFirstScrapeWhereItGoesByMetrics) {
  FlowStage stage("plugins: [{type: queue-scorer}]\n", 0);
  auto& waits = stage.come();
  stage.set_endpoints(1);
  stage.advance(1s);
  EXPECT_FALSE(waits.sent);  // nobody knows yet what the server does
  stage.scraped(0, {});
  stage.advance(10ms);
  EXPECT_TRUE(waits.sent);
}

TEST(FlowWholePool, TenThousandDrainWithoutArrivalsAndNeverTooManyRun) {
  constexpr size_t kWaiting = 10'000, kPlaces = 4 * 25;
  FlowStage stage(places(25, "  priorityBands: [{priority: 0, maxRequests: \"20000\"}]\n"), 0);
  std::vector<FlowStage::Client*> clients;
  for (size_t i = 0; i < kWaiting; ++i) clients.push_back(&stage.come());
  const TimePoint begin = stage.clock.now();
  stage.set_endpoints(4);
  size_t sent = 0;
  for (size_t ended = 0; ended < kWaiting; ++ended) {
    while (sent < kWaiting && clients[sent]->sent) ++sent;
    ASSERT_EQ(sent, std::min(ended + kPlaces, kWaiting)) << "after " << ended;
    clients[ended]->finish();
  }
  EXPECT_LT(stage.clock.now() - begin, 1s);  // by the ends of requests, not by ticks
}

}  // namespace
}  // namespace llmd::regress
