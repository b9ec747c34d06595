#include "io/signals.h"

#include <gtest/gtest.h>

#include <csignal>
#include <vector>

namespace llmd::io {
namespace {

TEST(Signals, ArriveOnTheLoop) {
  Loop loop(0, 1);
  std::vector<int> seen;
  const Signals signals(loop, {SIGUSR1, SIGUSR2}, [&](int signal) { seen.push_back(signal); });
  ASSERT_EQ(raise(SIGUSR2), 0);
  loop.turn(std::chrono::seconds(5));
  EXPECT_EQ(seen, std::vector<int>{SIGUSR2});
  ASSERT_EQ(raise(SIGUSR1), 0);
  loop.turn(std::chrono::seconds(5));
  EXPECT_EQ(seen, (std::vector<int>{SIGUSR2, SIGUSR1}));
}

}  // namespace
}  // namespace llmd::io
