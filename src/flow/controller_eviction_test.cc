#include "flow/controller.h"
#include "flow/testing.h"

#include <gtest/gtest.h>

namespace llmd::flow {
namespace {

using namespace std::chrono_literals;

/// One place, which a request of priority -1 has.
class ControllerEvictionTest : public ::testing::Test {
 protected:
  ControllerEvictionTest() {
    controller_.follow(fleet_);
    testing::set_fleet(fleet_, {""});
    policies_.detector.value = 1;
    use(controller_.evictor());
    running_ = controller_.evictor()->track(
        -1, schedule::Signal(std::make_shared<std::function<void()>>([this] { ++evicted_; })));
  }
  ~ControllerEvictionTest() override {
    for (auto* waiter : waiting_)
      if (!controller_.abandon(*waiter)) delete waiter;
    controller_.run();
  }
  void use(std::shared_ptr<Evictor> evictor) {
    Settings settings = policies_.settings();
    settings.evictor = std::move(evictor);
    settings.eviction_lag = 10ms;
    controller_.configure(settings);
  }
  void come(int32_t priority) {
    waiting_.push_back(testing::waiter(clock_.now(), "A", priority).release());
    controller_.hand_over(*waiting_.back());
    turn();
  }
  void turn() {
    clock_.advance(1ms);
    controller_.run();
  }

  testing::Policies policies_;
  ManualClock clock_;
  metric::Registry metrics_{1};
  fleet::Fleet fleet_;
  Controller controller_{clock_, metrics_, "pool"};
  Evictor::Running running_;
  std::vector<Waiter*> waiting_;
  int evicted_ = 0;
};

TEST_F(ControllerEvictionTest, MakesRoomForWhatIsMoreImportant) {
  come(10);
  EXPECT_EQ(evicted_, 1);
  turn();
  EXPECT_EQ(evicted_, 1);
  policies_.detector.value = 0;
  controller_.evictor()->untrack(running_);
  turn();
  EXPECT_EQ(controller_.waiting(), 0u);
}

TEST_F(ControllerEvictionTest, LooksBelowTheBandThatIsShut) {
  come(0);  // band 10 is shut too, and nobody waits there
  EXPECT_EQ(evicted_, 1);
}

TEST_F(ControllerEvictionTest, MakesNoRoomForEquals) {
  come(-1);
  EXPECT_EQ(evicted_, 0);
}

TEST_F(ControllerEvictionTest, MakesNoRoomBelowTheCeiling) {
  policies_.detector.value = .99;
  policies_.detector.each = 1;
  ASSERT_TRUE(controller_.pass(10, policies_.detector, 1, clock_.now()));
  come(10);  // what was let in fills the pool, though the detector does not know yet
  EXPECT_EQ(evicted_, 0);
}

TEST_F(ControllerEvictionTest, DoesNothingUnlessTold) {
  use(nullptr);
  come(10);
  EXPECT_EQ(evicted_, 0);
}

TEST_F(ControllerEvictionTest, KnowsWhoRunsAfterAReload) {
  use(nullptr);
  use(controller_.evictor());
  come(10);
  EXPECT_EQ(evicted_, 1);
}

}  // namespace
}  // namespace llmd::flow
