#include "io/loop.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <vector>

namespace llmd::io {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;

struct TimerTest : testing::Test {
  void step(Nanos d) {
    clock.advance(d);
    loop.turn(Nanos(0));
  }
  ManualClock clock;
  Loop loop{0, 1, clock};
};

TEST_F(TimerTest, FiresNotBeforeItsDelayAndAtMostAMillisecondLater) {
  for (const Nanos delay :
       {Nanos(0), Nanos(1), Nanos(milliseconds(1)), Nanos(1'500'000), Nanos(milliseconds(63)),
        Nanos(milliseconds(64)), Nanos(milliseconds(65)), Nanos(milliseconds(4095)),
        Nanos(milliseconds(4096)), Nanos(milliseconds(262'145)), Nanos(hours(5)),
        Nanos(hours(30))}) {
    Timer timer(loop);
    bool fired = false;
    timer.arm(delay, [&] { fired = true; });
    if (delay > Nanos(0)) {
      step(delay - Nanos(1));
      EXPECT_FALSE(fired) << delay.count();
    }
    step(Nanos(milliseconds(1)));
    EXPECT_TRUE(fired) << delay.count();
    EXPECT_FALSE(timer.armed());
  }
}

TEST_F(TimerTest, FiresInOrderOverRandomDelaysAndSteps) {
  Rng rng(42);
  std::vector<std::unique_ptr<Timer>> timers;
  std::vector<TimePoint> due(3000);
  size_t fired = 0;
  for (size_t i = 0; i < due.size(); ++i) {
    const Nanos delay(static_cast<int64_t>(rng.below(uint64_t{1} << rng.below(44))));
    due[i] = clock.now() + delay;
    timers.push_back(std::make_unique<Timer>(loop));
    timers.back()->arm(delay, [&, i] {
      ++fired;
      EXPECT_GE(clock.now(), due[i]);
      due[i] = clock.now() + hours(1'000'000);
    });
    if (i % 10 == 0) step(Nanos(static_cast<int64_t>(rng.below(5'000'000))));
  }
  while (fired < due.size()) {
    step(Nanos(static_cast<int64_t>(1 + rng.below(uint64_t{1} << (20 + rng.below(16))))));
    for (const TimePoint at : due) ASSERT_GT(at + Nanos(1'000'000), clock.now());
  }
}

TEST_F(TimerTest, CancelledOrReplacedNeverFiresAtTheOldTime) {
  Timer timer(loop);
  int fired = 0;
  timer.arm(milliseconds(5), [&] { fired = 1; });
  timer.cancel();
  step(milliseconds(10));
  EXPECT_EQ(fired, 0);
  timer.arm(milliseconds(5), [&] { fired = 1; });
  timer.arm(milliseconds(50), [&] { fired = 2; });
  step(milliseconds(10));
  EXPECT_EQ(fired, 0);
  step(milliseconds(50));
  EXPECT_EQ(fired, 2);
}

TEST_F(TimerTest, MayBeDestroyedOrArmedAgainByItsOwnCallback) {
  auto timer = std::make_unique<Timer>(loop);
  timer->arm(milliseconds(1), [&] { timer.reset(); });
  step(milliseconds(3));
  EXPECT_EQ(timer, nullptr);
  Timer repeated(loop);
  int fired = 0;
  std::function<void()> again = [&] {
    if (++fired < 5) repeated.arm(milliseconds(64), [&] { again(); });
  };
  again();
  for (int i = 0; i < 600; ++i) step(milliseconds(1));
  EXPECT_EQ(fired, 5);
}

TEST_F(TimerTest, OneMayCancelAnotherThatIsDueInTheSameMillisecond) {
  Timer a(loop), b(loop);
  int fired = 0;
  a.arm(milliseconds(2), [&] { ++fired, b.cancel(); });
  b.arm(milliseconds(2), [&] { ++fired, a.cancel(); });
  step(milliseconds(5));
  EXPECT_EQ(fired, 1);
}

TEST(Timer, MayOutliveTheLoopUnarmedByItsDestruction) {
  ManualClock clock;
  auto loop = std::make_unique<Loop>(0, 1, clock);
  Timer timer(*loop);
  timer.arm(milliseconds(1), [] {});
  loop.reset();
  EXPECT_FALSE(timer.armed());
}

}  // namespace
}  // namespace llmd::io
