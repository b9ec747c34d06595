#include "flow/gate.h"

#include "flow/testing.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace llmd::flow {
namespace {

using namespace std::chrono_literals;

class GateTest : public ::testing::Test {
 protected:
  GateTest() {
    queues_.configure(policies_.settings(), clock_.now());
    gate_.configure(policies_.detector, policies_.usage, nullptr);
    gate_.set_bands(queues_.bands());
    use({""});
  }
  void use(const std::vector<std::string>& roles) {
    testing::set_fleet(fleet_, roles);
    gate_.set_pool(fleet_.snapshot());
  }
  void read(double saturation) {
    policies_.detector.value = saturation;
    clock_.advance(1ms);
    gate_.renew(clock_.now());
  }
  bool open(int32_t priority) { return gate_.open(*gate_.find(priority)); }
  /// How many requests go in.
  int let_in(int32_t priority, int most = 1000) {
    int n = 0;
    while (n < most && gate_.reserve(*gate_.find(priority), gate_.units(policies_.detector, 1)))
      ++n;
    return n;
  }

  testing::Policies policies_;
  ManualClock clock_;
  fleet::Fleet fleet_;
  Queues queues_;
  Gate gate_{clock_};
};

TEST_F(GateTest, ShutsBandsAtTheirCeilings) {
  policies_.usage.values = {.9, .65, .4};
  const struct {
    double saturation;
    bool high, middle, low;
  } cases[] = {{.39, true, true, true},
               {.4, true, true, false},
               {.5, true, true, false},
               {.65, true, false, false},
               {.9, false, false, false}};
  for (const auto& c : cases) {
    read(c.saturation);
    EXPECT_EQ(open(10), c.high) << c.saturation;
    EXPECT_EQ(open(0), c.middle) << c.saturation;
    EXPECT_EQ(open(-1), c.low) << c.saturation;
  }
}

TEST_F(GateTest, ShutsLowerBandsWithAHigherOne) {
  policies_.usage.values = {.5, 1, 1};
  read(.5);
  EXPECT_FALSE(open(10));
  EXPECT_FALSE(open(0));
}

TEST_F(GateTest, AsksThePolicyOnceAReading) {
  read(.1);
  const int calls = policies_.usage.calls;
  read(.2);
  EXPECT_EQ(policies_.usage.calls, calls + 1);
}

TEST_F(GateTest, IsShutForAnEmptyPool) {
  use({});
  read(0);
  EXPECT_FALSE(open(10));
  EXPECT_TRUE(gate_.regime().empty);
  use({""});
  EXPECT_EQ(gate_.regime().since, clock_.now());
  read(0);
  EXPECT_TRUE(open(10));
}

/// As many as there is room for, whatever the steps are.
TEST_F(GateTest, LetsInWhatFits) {
  for (const int slots : {1, 3, 7, 10, 100, 640}) {
    policies_.detector.each = 1.0 / slots;
    read(0);
    EXPECT_EQ(let_in(0), slots);
    EXPECT_EQ(let_in(10), 0);
    gate_.settle(static_cast<uint64_t>(slots) * gate_.units(policies_.detector, 1));
    for (int load = 0; load <= slots; ++load) {
      read(static_cast<double>(load) / slots);
      const int entered = let_in(0);
      ASSERT_EQ(entered, slots - load) << slots << " slots";
      gate_.settle(static_cast<uint64_t>(entered) * gate_.units(policies_.detector, 1));
    }
  }
}

TEST_F(GateTest, CountsReservationsAcrossReadings) {
  policies_.detector.each = .25;
  read(0);
  EXPECT_EQ(let_in(0, 2), 2);
  read(0);  // they show nowhere yet
  EXPECT_EQ(let_in(0), 2);
  gate_.settle(4 * gate_.units(policies_.detector, 1));
  EXPECT_EQ(let_in(0), 0);  // until the next reading what is settled counts
  read(.5);
  EXPECT_EQ(let_in(0), 2);
}

TEST_F(GateTest, TakesTheFullerStage) {
  use({"prefill", "decode", "", "both", "encode"});
  policies_.detector.sizes.clear();
  read(.3);
  EXPECT_EQ(policies_.detector.sizes, (std::vector<size_t>{2, 3}));
  const auto now = gate_.measure(clock_.now());
  EXPECT_EQ(now.prefill, .3);
  EXPECT_EQ(now.decode, .3);
  EXPECT_EQ(now.effective, .3);
}

TEST_F(GateTest, CountsNoRoomOfEjectedEndpoints) {
  metric::Registry registry(1);
  const fleet::Ejector ejector(fleet_, registry, {});
  for (const auto& [roles, sizes] :
       std::initializer_list<std::pair<std::vector<std::string>, std::vector<size_t>>>{
           {{"", "", "", ""}, {3}}, {{"decode", "decode", "prefill"}, {1, 1}}}) {
    use(roles);
    const auto pool = fleet_.snapshot();
    ejector.failed(*pool->endpoints[0], fleet::Ejector::Cause::kConnect, *pool, clock_.now());
    policies_.detector.sizes.clear();
    read(.3);
    EXPECT_EQ(policies_.detector.sizes, sizes);
    gate_.units(policies_.detector, 1);
    EXPECT_EQ(policies_.detector.shared_by, std::ranges::min(sizes));
  }
}

TEST_F(GateTest, AsksAboutThePoolWithoutStages) {
  use({"encode", "unknown"});
  policies_.detector.sizes.clear();
  read(.3);
  EXPECT_EQ(policies_.detector.sizes, (std::vector<size_t>{2}));
  EXPECT_FALSE(gate_.measure(clock_.now()).prefill);
  EXPECT_EQ(gate_.measure(clock_.now()).effective, .3);
}

TEST_F(GateTest, ReadsOnceAPeriod) {
  read(.1);
  policies_.detector.value = 2;
  clock_.advance(Gate::kPeriod - 1ns);
  EXPECT_TRUE(gate_.refresh(clock_.now()));
  EXPECT_TRUE(open(0));
  clock_.advance(1ns);
  EXPECT_TRUE(gate_.refresh(clock_.now()));
  EXPECT_FALSE(open(0));
}

TEST_F(GateTest, ShutsBandsThatAreGone) {
  const int32_t desired[] = {3};
  queues_.provision(desired, clock_.now());
  gate_.set_bands(queues_.bands());
  read(0);
  EXPECT_TRUE(open(3));
  queues_.provision({}, clock_.now());
  gate_.set_bands(queues_.bands());
  EXPECT_FALSE(open(3));
}

}  // namespace
}  // namespace llmd::flow
