#include "io/loop.h"

#include "io/loop_thread.h"
#include "io/socket.h"

#include <gtest/gtest.h>

#include <future>
#include <sys/socket.h>
#include <unistd.h>

namespace llmd::io {
namespace {

struct Recorder final : Pollable {
  void on_ready(uint32_t ready) override {
    all |= ready;
    ++count;
    if (then) then();
  }
  uint32_t all = 0;
  int count = 0;
  std::function<void()> then;
};

struct Pair {
  Pair() {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    near.reset(fds[0]);
    far.reset(fds[1]);
  }
  Fd near, far;
};

TEST(Loop, RunsWorkPostedFromOtherThreadsInOrderUnderItsName) {
  LoopThread thread("worker", 0, 1);
  thread.start();
  std::vector<int> order;
  std::promise<std::string> name;
  for (int i = 0; i < 100; ++i) thread.loop().post([&order, i] { order.push_back(i); });
  thread.loop().post([&] {
    char text[32];
    pthread_getname_np(pthread_self(), text, sizeof text);
    name.set_value(text);
  });
  EXPECT_EQ(name.get_future().get(), "worker");
  thread.stop();
  ASSERT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

TEST(Loop, WorkPostedByWorkRunsLater) {
  Loop loop(0, 1);
  int runs = 0;
  loop.post([&] { loop.post([&] { ++runs; }); });
  loop.turn(Nanos(0));
  EXPECT_EQ(runs, 0);
  loop.turn(Nanos(0));
  EXPECT_EQ(runs, 1);
}

TEST(Loop, ReportsEdgesOfReadingAndThePeersEnd) {
  Loop loop(0, 1);
  Pair pair;
  Recorder recorder;
  loop.watch(pair.near.get(), recorder);
  loop.turn(Nanos(0));
  EXPECT_EQ(recorder.all, kWritable);
  ASSERT_EQ(write(pair.far.get(), "x", 1), 1);
  loop.turn(Nanos(0));
  EXPECT_TRUE(recorder.all & kReadable);
  EXPECT_FALSE(recorder.all & kPeerGone);
  const int count = recorder.count;
  loop.turn(Nanos(0));
  EXPECT_EQ(recorder.count, count) << "an edge is reported once";
  pair.far.reset();
  loop.turn(Nanos(0));
  EXPECT_TRUE(recorder.all & kPeerGone);
}

TEST(Loop, ForgottenPollablesHearNothingMoreInTheSameTurn) {
  Loop loop(0, 1);
  Pair a, b;
  Recorder first, second;
  first.then = [&] { loop.forget(second); };
  second.then = [&] { loop.forget(first); };
  loop.watch(a.near.get(), first);
  loop.watch(b.near.get(), second);
  loop.turn(Nanos(0));
  EXPECT_EQ(first.count + second.count, 1);
}

struct Task : TurnTask {
  void at_turn_end() override {
    ++runs;
    if (again) again->at_turn_end(*this);
  }
  int runs = 0;
  Loop* again = nullptr;
};

TEST(Loop, TurnTasksRunOncePerTurnAndLeaveWhenDestroyed) {
  Loop loop(0, 1);
  Task once, repeated;
  repeated.again = &loop;
  {
    Task gone;
    loop.at_turn_end(once);
    loop.at_turn_end(gone);
    loop.at_turn_end(once);
    loop.at_turn_end(repeated);
  }
  loop.turn(Nanos(0));
  EXPECT_EQ(once.runs, 1);
  EXPECT_EQ(repeated.runs, 1);
  loop.turn(std::chrono::hours(1));
  EXPECT_EQ(once.runs, 1);
  EXPECT_EQ(repeated.runs, 2) << "a queued task keeps the loop from waiting";
  repeated.again = nullptr;
  loop.turn(Nanos(0));
}

TEST(Loop, StopBeforeRunReturnsAtOnce) {
  Loop loop(0, 1);
  loop.stop();
  loop.run("never");
}

}  // namespace
}  // namespace llmd::io
