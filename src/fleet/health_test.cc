#include "fleet/health.h"

#include "fleet/fleet.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace llmd::fleet {
namespace {

using State = EndpointHealth::State;
using Cause = Ejector::Cause;
using std::chrono::milliseconds;
using std::chrono::seconds;

struct EjectorTest : ::testing::Test {
  EjectorTest() { set(4); }
  void set(int count, std::string_view label = "a") {
    std::vector<EndpointSpec> specs;
    for (int i = 0; i < count; ++i)
      specs.push_back({.name = "e" + std::to_string(i),
                       .address = "10.0.0.1",
                       .port = static_cast<uint16_t>(8000 + i),
                       .labels = {{"l", std::string(label)}}});
    fleet.set(std::move(specs));
    pool = fleet.snapshot();
  }
  Endpoint& at(size_t i) { return *pool->endpoints[i]; }
  State state(size_t i = 0) { return at(i).health.state(clock.now()); }
  void refuse(size_t i = 0) { ejector.failed(at(i), Cause::kConnect, *pool, clock.now()); }
  void answer_5xx(size_t i = 0) { ejector.failed(at(i), Cause::kStatus5xx, *pool, clock.now()); }
  void send(size_t i = 0) { ejector.sent(at(i), clock.now()); }

  ManualClock clock;
  metric::Registry metrics{1};
  Fleet fleet;
  SnapshotPtr pool;
  Ejector ejector{fleet, metrics, {}};
};

TEST_F(EjectorTest, EjectsAtTheFirstFailedConnection) {
  EXPECT_EQ(state(), State::kHealthy);
  refuse();
  EXPECT_EQ(state(), State::kEjected);
  EXPECT_EQ(state(1), State::kHealthy);
  const auto page = metrics.render();
  EXPECT_NE(page.find("llmd_fleet_ejections_total{cause=\"connect\"} 1\n"), std::string::npos);
  EXPECT_NE(
      page.find("llmd_fleet_endpoint_ejected{endpoint_name=\"e0\",namespace=\"default\"} 1\n"),
      std::string::npos);
  EXPECT_NE(
      page.find("llmd_fleet_endpoint_ejected{endpoint_name=\"e1\",namespace=\"default\"} 0\n"),
      std::string::npos);
}

TEST_F(EjectorTest, EjectsAfterThree5xxAnswersInARow) {
  answer_5xx();
  answer_5xx();
  ejector.answered(at(0));
  answer_5xx();
  answer_5xx();
  EXPECT_EQ(state(), State::kHealthy);
  answer_5xx();
  EXPECT_EQ(state(), State::kEjected);
}

TEST_F(EjectorTest, CountsTimeOutsLike5xxAnswers) {
  answer_5xx();
  ejector.failed(at(0), Cause::kTimeout, *pool, clock.now());
  EXPECT_EQ(state(), State::kHealthy);
  ejector.failed(at(0), Cause::kTimeout, *pool, clock.now());
  EXPECT_EQ(state(), State::kEjected);
  EXPECT_NE(metrics.render().find("llmd_fleet_ejections_total{cause=\"timeout\"} 1\n"),
            std::string::npos);
}

TEST_F(EjectorTest, DoublesTheBackOffOfEachFailedProbeUpToItsMaximum) {
  refuse();
  for (const int wait : {1, 2, 4, 8, 16, 30, 30}) {
    EXPECT_EQ(at(0).health.wait(clock.now()), seconds(wait));
    clock.advance(seconds(wait) - milliseconds(1));
    EXPECT_EQ(state(), State::kEjected);
    clock.advance(milliseconds(1));
    EXPECT_EQ(state(), State::kHalfOpen);
    send();
    refuse();
    EXPECT_EQ(state(), State::kEjected);
  }
}

TEST_F(EjectorTest, LetsOneProbeThroughAndAnAnswerBringsTheEndpointBack) {
  refuse();
  clock.advance(seconds(1));
  EXPECT_EQ(state(), State::kHalfOpen);
  send();
  EXPECT_EQ(state(), State::kEjected) << "the probe is out";
  ejector.answered(at(0));
  EXPECT_EQ(state(), State::kHealthy);
  refuse();
  EXPECT_EQ(at(0).health.wait(clock.now()), seconds(1)) << "back-offs start over";
}

TEST_F(EjectorTest, AProbeWithoutAnswerMakesRoomForAnother) {
  refuse();
  clock.advance(seconds(1));
  send();
  clock.advance(seconds(1));
  EXPECT_EQ(state(), State::kHalfOpen);
}

TEST_F(EjectorTest, FailuresOfRequestsSentBeforeDoNotLengthenTheBackOff) {
  refuse();
  refuse();
  answer_5xx();
  EXPECT_EQ(at(0).health.ejections(), 1u);
  EXPECT_EQ(at(0).health.wait(clock.now()), seconds(1));
}

TEST_F(EjectorTest, KeepsHalfOfThePool) {
  const size_t sizes[][2] = {{1, 0}, {2, 1}, {3, 1}, {4, 2}, {5, 2}};
  for (const auto& [size, most] : sizes) {
    set(0);
    set(static_cast<int>(size));
    for (size_t i = 0; i < size; ++i) refuse(i);
    size_t out = 0;
    for (size_t i = 0; i < size; ++i) out += state(i) == State::kEjected;
    EXPECT_EQ(out, most) << "of " << size;
  }
  EXPECT_NE(metrics.render().find("llmd_fleet_ejections_withheld_total 9\n"), std::string::npos);
}

TEST_F(EjectorTest, ChangedLabelsKeepTheState) {
  refuse();
  set(4, "b");
  EXPECT_EQ(state(), State::kEjected);
  EXPECT_EQ(at(0).health.ejections(), 1u);
}

TEST_F(EjectorTest, KeepsHalfOfThePoolFromManyThreads) {
  set(8);
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < 2000; ++i) {
        auto& endpoint = at((i + static_cast<size_t>(t)) % 8);
        ejector.sent(endpoint, clock.now());
        if (i % 7 == 0)
          ejector.answered(endpoint);
        else
          ejector.failed(endpoint, Cause::kConnect, *pool, clock.now());
      }
    });
  threads.clear();
  size_t out = 0;
  for (size_t i = 0; i < 8; ++i) out += !at(i).health.healthy();
  EXPECT_LE(out, 4u);
  for (size_t i = 0; i < 8; ++i) ejector.answered(at(i));
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(state(i), State::kHealthy);
}

TEST_F(EjectorTest, CanBeTurnedOff) {
  metric::Registry registry{1};
  const Ejector off(fleet, registry, {.enabled = false});
  off.failed(at(0), Cause::kConnect, *pool, clock.now());
  EXPECT_EQ(state(), State::kHealthy);
  EXPECT_EQ(registry.render().find("ejected"), std::string::npos);
}

}  // namespace
}  // namespace llmd::fleet
