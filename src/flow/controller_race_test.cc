#include "base/rng.h"
#include "flow/controller.h"
#include "flow/testing.h"

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <thread>
#include <vector>

namespace llmd::flow {
namespace {

using namespace std::chrono_literals;

/// A thread that runs the controller whenever it is woken.
class Dispatcher {
 public:
  explicit Dispatcher(Controller& controller) : controller_(controller) {
    controller.attach({.wake = [this] { wake(); }, .alarm = [](Nanos) {}});
    thread_ = std::jthread([this](const std::stop_token& stop) { serve(stop); });
  }
  ~Dispatcher() {
    thread_.request_stop();
    wake();
  }

 private:
  void wake() {
    {
      const std::lock_guard lock(mutex_);
      woken_ = true;
    }
    changed_.notify_one();
  }
  void serve(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return std::exchange(woken_, false); });
      }
      controller_.run();
    }
  }

  Controller& controller_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool woken_ = false;
  std::jthread thread_;
};

/// One loop's requests: each ends once, by the dispatcher or by going away.
class Loop {
 public:
  Loop(Controller& controller, const testing::Policies& policies, uint64_t seed)
      : controller_(controller), policies_(policies), rng_(seed) {}
  ~Loop() {
    for (auto& slot : slots_) leave(slot);
  }

  void step() {
    Slot& slot = slots_[rng_.below(slots_.size())];
    if (!slot.waiter) return come(slot);
    if (slot.woken->load(std::memory_order_acquire)) return take(slot);
    if (rng_.below(4) == 0) leave(slot);
  }

  int passed = 0, dispatched = 0, refused = 0, left = 0;

 private:
  struct Slot {
    Waiter* waiter = nullptr;
    std::shared_ptr<std::atomic<int>> woken;
  };

  void come(Slot& slot) {
    const auto priority = static_cast<int32_t>(rng_.below(2)) * 10;
    const TimePoint now = real_clock().now();
    if (const auto reserved = controller_.pass(priority, policies_.detector, 1, now)) {
      controller_.gate().settle(*reserved);
      ++passed;
      return;
    }
    auto one = testing::waiter(now, "f" + std::to_string(rng_.below(3)), priority);
    slot.woken = std::make_shared<std::atomic<int>>(0);
    one->resume = schedule::Signal(std::make_shared<std::function<void()>>(
        [woken = slot.woken] { woken->fetch_add(1, std::memory_order_release); }));
    slot.waiter = one.get();
    controller_.hand_over(*one.release());
  }
  void take(Slot& slot) {
    const std::unique_ptr<Waiter> one(std::exchange(slot.waiter, nullptr));
    EXPECT_EQ(slot.woken->load(), 1);
    controller_.gate().settle(one->reserved);
    ++(one->outcome == Outcome::kDispatched ? dispatched : refused);
  }
  void leave(Slot& slot) {
    if (!slot.waiter) return;
    if (controller_.abandon(*slot.waiter)) {
      slot.waiter = nullptr;
      ++left;
    } else {
      const std::unique_ptr<Waiter> one(std::exchange(slot.waiter, nullptr));
      controller_.gate().settle(one->reserved);
      ++dispatched;
    }
  }

  Controller& controller_;
  const testing::Policies& policies_;
  Rng rng_;
  std::array<Slot, 32> slots_;
};

TEST(ControllerRace, EndsEveryWaitOnce) {
  testing::Policies policies;
  metric::Registry metrics(8);
  fleet::Fleet fleet;
  testing::set_fleet(fleet, {""});
  Controller controller(real_clock(), metrics, "pool");
  Settings settings = policies.settings();
  settings.bands[1].limits.requests = 20;
  controller.follow(fleet);
  controller.configure(settings);
  {
    Dispatcher dispatcher(controller);
    std::vector<std::jthread> threads;
    for (uint64_t seed = 1; seed <= 4; ++seed)
      threads.emplace_back([&, seed] {
        Loop loop(controller, policies, seed);
        for (int i = 0; i < 20'000; ++i) loop.step();
      });
    for (int i = 0; i < 400; ++i) {
      policies.detector.value = i % 4 == 0 ? 0.5 : 1.0;
      if (i % 40 == 0) controller.configure(settings);
      if (i % 50 == 0)
        testing::set_fleet(
            fleet, i % 100 == 0 ? std::vector<std::string>{} : std::vector<std::string>{""});
      controller.made_room();
      metrics.render();
      std::this_thread::yield();
    }
  }
  controller.run();
  EXPECT_EQ(controller.waiting(), 0u);
  EXPECT_EQ(controller.gate().reading().reserved, 0u);
}

}  // namespace
}  // namespace llmd::flow
