#include "flow/evictor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace llmd::flow {
namespace {

using namespace std::chrono_literals;
using schedule::Signal;

constexpr Nanos kLag = 10ms;

TEST(Revocations, Vectors) {
  const struct {
    double saturation, ceiling;
    int64_t in_flight;
    size_t evictable, want;
  } rows[] = {
      {1.2, 1, 6, 6, 1},   {1, 1, 10, 10, 1},    {2, 1, 4, 4, 2},
      {1.1, .9, 20, 5, 2}, {2, 1, 4, 1, 1},      {1.5, 1, 0, 0, 0},
      {.9, 1, 6, 6, 0},    {1.05, 1, 100, 3, 2}, {0, 0, 4, 4, 1},
  };
  for (const auto& row : rows)
    EXPECT_EQ(revocations_needed(row.saturation, row.ceiling, row.in_flight, row.evictable),
              row.want)
        << row.saturation << " over " << row.ceiling;
}

class EvictorTest : public ::testing::Test {
 protected:
  /// Tracks a request that notes its name when it is evicted.
  Evictor::Running run(int32_t priority, const std::string& name) {
    return evictor_.track(priority, Signal(std::make_shared<std::function<void()>>(
                                        [this, name] { evicted_.push_back(name); })));
  }
  size_t reclaim(double saturation, std::vector<Claim> claims) {
    return evictor_.reclaim(saturation, claims, kLag);
  }
  std::vector<std::string> evicted() { return std::exchange(evicted_, {}); }
  bool shows(const std::string& line) {
    return ("\n" + metrics_.render()).contains("\n" + line + "\n");
  }
  using Names = std::vector<std::string>;

  ManualClock clock_;
  metric::Registry metrics_{1};
  Evictor evictor_{metrics_, clock_, "pool"};
  Names evicted_;
  const std::vector<Claim> urgent_ = {{.priority = 10, .ceiling = 1, .waits = true}};
};

TEST_F(EvictorTest, TakesTheLeastImportantAndOfThoseTheLatest) {
  std::vector<Evictor::Running> running;
  for (const auto& [priority, name] :
       {std::pair(-1, "a"), {-2, "b"}, {-2, "c"}, {-1, "d"}, {0, "e"}}) {
    clock_.advance(1ms);
    running.push_back(run(priority, name));
  }
  EXPECT_EQ(reclaim(1.4, urgent_), 2u);
  EXPECT_EQ(evicted(), (Names{"c", "b"}));
  EXPECT_EQ(evictor_.in_flight(), 5);
}

TEST_F(EvictorTest, NeverTakesRequestsOfPriorityFromZeroOn) {
  auto running = run(0, "a");
  EXPECT_EQ(reclaim(2, urgent_), 0u);
  EXPECT_EQ(evictor_.in_flight(), 1);
  evictor_.untrack(running);
  evictor_.untrack(running);
  EXPECT_EQ(evictor_.in_flight(), 0);
}

TEST_F(EvictorTest, ServesTheFirstClaimThatCanHaveSome) {
  auto a = run(-5, "a");
  const Claim closed{.priority = 10, .ceiling = 0, .waits = true};
  const Claim below{.priority = 9, .ceiling = 2, .waits = true};
  const Claim nobody{.priority = 8, .ceiling = 1, .waits = false};
  const Claim lower{.priority = -4, .ceiling = 1, .waits = true};
  const Claim equal{.priority = -5, .ceiling = 1, .waits = true};
  EXPECT_EQ(reclaim(1, {closed, below, nobody, equal, lower}), 0u);
  EXPECT_EQ(reclaim(1, {closed, below, nobody, lower}), 1u);
}

TEST_F(EvictorTest, SparesRequestsThatAreAsImportantAsTheClaim) {
  auto a = run(-2, "a");
  auto b = run(-1, "b");
  EXPECT_EQ(reclaim(2, {{.priority = -1, .ceiling = 1, .waits = true}}), 1u);
  EXPECT_EQ(evicted(), Names{"a"});
}

TEST_F(EvictorTest, WaitsForTheEndAndForTheDetector) {
  auto a = run(-1, "a");
  auto b = run(-1, "b");
  EXPECT_EQ(reclaim(1, urgent_), 1u);
  EXPECT_EQ(evicted(), Names{"b"});
  EXPECT_TRUE(shows(R"(llm_d_epp_flow_control_pending_reclaim{inference_pool="pool"} 0.5)"));
  clock_.advance(1s);
  EXPECT_EQ(reclaim(1, urgent_), 0u) << "revoking";
  evictor_.untrack(b);
  clock_.advance(kLag - 1ns);
  EXPECT_EQ(reclaim(1, urgent_), 0u) << "cooling";
  clock_.advance(1ns);
  EXPECT_EQ(reclaim(1, urgent_), 1u);
  EXPECT_EQ(evicted(), Names{"a"});
  EXPECT_TRUE(
      shows("llm_d_epp_flow_control_revocations_total{inference_pool=\"pool\","
            "outcome=\"confirmed\"} 1"));
  EXPECT_TRUE(
      shows("llm_d_epp_flow_control_revocations_issued_total{inference_pool=\"pool\","
            "priority=\"-1\"} 2"));
  EXPECT_TRUE(
      shows("llm_d_epp_flow_control_revocation_confirmation_seconds_sum{inference_pool="
            "\"pool\"} 1"));
}

TEST_F(EvictorTest, GivesUpOnAStreamThatDoesNotEnd) {
  auto a = run(-1, "a");
  auto b = run(-1, "b");
  EXPECT_EQ(reclaim(1, urgent_), 1u);
  clock_.advance(10s);
  EXPECT_EQ(reclaim(1, urgent_), 0u) << "cooling like a confirmed one";
  EXPECT_TRUE(
      shows("llm_d_epp_flow_control_revocations_total{inference_pool=\"pool\","
            "outcome=\"timed_out\"} 1"));
  evictor_.untrack(b);  // late
  EXPECT_TRUE(
      shows("llm_d_epp_flow_control_revocations_total{inference_pool=\"pool\","
            "outcome=\"confirmed\"} 0"));
  clock_.advance(kLag);
  EXPECT_TRUE(shows(R"(llm_d_epp_flow_control_pending_reclaim{inference_pool="pool"} 0)"));
  EXPECT_EQ(reclaim(1, urgent_), 1u);
}

TEST_F(EvictorTest, ShowsWhatItAimsAt) {
  auto a = run(-1, "a");
  reclaim(1.25, {{.priority = 0, .ceiling = 1, .waits = true}});
  EXPECT_TRUE(shows(R"(llm_d_epp_flow_control_reclaim_target{inference_pool="pool"} 0.25)"));
}

TEST_F(EvictorTest, CountsSpentTokens) {
  evictor_.count_spent(-1, 100, 7);
  evictor_.count_spent(-1, 0, 3);
  EXPECT_TRUE(
      shows("llmd_flow_revoked_tokens_total{inference_pool=\"pool\",kind=\"prompt\","
            "priority=\"-1\"} 100"));
  EXPECT_TRUE(
      shows("llmd_flow_revoked_tokens_total{inference_pool=\"pool\",kind=\"output\","
            "priority=\"-1\"} 10"));
}

/// A pool of `capacity` places: `preload` sheddable requests run, `waiting` important ones, which
/// never finish, come on top. Evicted streams end at once.
struct ClosedLoop {
  size_t preload, waiting;
  double capacity, ceiling;
  size_t evictions = 0, admits = 0;

  void run() {
    ManualClock clock;
    metric::Registry metrics{1};
    Evictor evictor(metrics, clock, "pool");
    std::vector<Evictor::Running> batch(preload), important;
    for (auto& request : batch)
      request = evictor.track(-1, Signal(std::make_shared<std::function<void()>>([&] {
        ++evictions;
        ended.push_back(&request);
      })));
    for (int steps = 0; steps < 1000; ++steps) {
      const double saturation = static_cast<double>(evictor.in_flight()) / capacity;
      if (admits < waiting && saturation < ceiling) {
        important.push_back(evictor.track(10, {}));
        ++admits;
        continue;
      }
      const Claim claims[] = {{.priority = 10, .ceiling = ceiling, .waits = admits < waiting},
                              {.priority = -1, .ceiling = ceiling, .waits = false}};
      if (evictor.reclaim(saturation, claims, kLag) == 0) return;
      for (auto* request : std::exchange(ended, {})) evictor.untrack(*request);
      clock.advance(kLag);
    }
  }
  std::vector<Evictor::Running*> ended;
};

TEST(ClosedLoopEviction, IsTheLeastThatMakesRoom) {
  const struct {
    size_t preload, waiting;
    double capacity, ceiling;
    size_t evictions, admits;
  } rows[] = {
      {20, 1, 20, .9, 3, 1}, {20, 32, 20, .9, 20, 18}, {20, 10, 20, .9, 12, 10},
      {10, 1, 20, .9, 0, 1}, {18, 1, 18, 1.0, 1, 1},   {20, 1, 20, .95, 2, 1},
      {20, 5, 20, 0, 0, 0},  {0, 5, 20, .9, 0, 5},
  };
  for (const auto& row : rows) {
    ClosedLoop loop{row.preload, row.waiting, row.capacity, row.ceiling};
    loop.run();
    const auto label = ::testing::PrintToString(std::tuple(row.preload, row.waiting, row.ceiling));
    EXPECT_EQ(loop.evictions, row.evictions) << label;
    EXPECT_EQ(loop.admits, row.admits) << label;
  }
}

}  // namespace
}  // namespace llmd::flow
