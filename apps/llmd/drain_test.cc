#include "drain.h"

#include <gtest/gtest.h>

#include <csignal>
#include <future>
#include <vector>

namespace llmd {
namespace {

using std::chrono::seconds;

struct DrainTest : ::testing::Test {
  Nanos finished() { return graces.get_future().get(); }
  bool over(std::future<Nanos>& grace) {
    return grace.wait_for(seconds(0)) == std::future_status::ready;
  }

  ManualClock clock;
  io::Loop loop{0, 1, clock};
  std::promise<Nanos> graces;
  int ended = 0;
  Drain drain{loop,
              {.drain_timeout = seconds(30), .shutdown_grace = seconds(100)},
              [this](Nanos grace) { graces.set_value(grace); },
              [this] { ++ended; }};
};

TEST_F(DrainTest, GoesOnServingBeforeItStops) {
  auto grace = graces.get_future();
  EXPECT_FALSE(drain.draining());
  drain.on_signal(SIGTERM);
  EXPECT_TRUE(drain.draining());
  clock.advance(seconds(29));
  loop.turn(Nanos(0));
  EXPECT_FALSE(over(grace));
  clock.advance(seconds(2));
  loop.turn(Nanos(0));
  EXPECT_EQ(grace.get(), seconds(100));
}

TEST_F(DrainTest, InterruptsStopSoon) {
  drain.on_signal(SIGINT);
  EXPECT_TRUE(drain.draining());
  EXPECT_EQ(finished(), Drain::kInterruptGrace);
}

TEST_F(DrainTest, ASecondSignalEndsTheProcess) {
  drain.on_signal(SIGTERM);
  drain.on_signal(SIGTERM);  // the same stop, told to the process and to its group
  EXPECT_EQ(ended, 0);
  clock.advance(Drain::kSameStop);
  drain.on_signal(SIGTERM);
  EXPECT_EQ(ended, 1);
}

TEST_F(DrainTest, StopsTheControlLoopAfterwards) {
  drain.on_signal(SIGINT);
  loop.run("control");  // returns
  EXPECT_EQ(finished(), Drain::kInterruptGrace);
}

}  // namespace
}  // namespace llmd
