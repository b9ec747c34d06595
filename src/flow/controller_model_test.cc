#include "base/rng.h"
#include "flow/controller.h"
#include "flow/testing.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace llmd::flow {
namespace {

using namespace std::chrono_literals;

constexpr int kSlots = 6;
constexpr int64_t kBandRequests = 15;
constexpr int64_t kAllBytes = 300;
constexpr Nanos kTtl = 3s;
constexpr Nanos kNoEndpointTtl = 8s;
constexpr Nanos kCap = kNoEndpointTtl + 2s;

/// The same as the controller, in the plainest way.
struct Model {
  struct Request {
    int id;
    int32_t priority;
    int64_t bytes;
    TimePoint enqueued;
  };
  std::vector<Request> arrived;  // handed over, not queued yet
  std::vector<Request> queue;
  int running = 0;
  bool pool_empty = false;
  Regime regime;

  int handed = 0;           // since the last turn
  int64_t top = INT64_MIN;  // after it: those that went since are not known to be gone

  bool passes(int32_t priority) const {
    return !pool_empty && running < kSlots && handed == 0 && priority > top;
  }
  bool has_room_for(const Request& one) const {
    int64_t bytes = one.bytes, same = 1;
    for (const auto& r : queue) {
      bytes += r.bytes;
      same += r.priority == one.priority;
    }
    return bytes <= kAllBytes && same <= kBandRequests;
  }
  bool expired(const Request& one, TimePoint now) const {
    const Nanos budget = regime.empty ? kNoEndpointTtl : kTtl;
    return now >= std::min(std::max(one.enqueued, regime.since) + budget, one.enqueued + kCap);
  }
  bool drop(int id) {
    const auto is = [id](const auto& r) { return r.id == id; };
    return std::erase_if(arrived, is) + std::erase_if(queue, is) > 0;
  }

  /// What a turn of the dispatcher ends, in order.
  std::vector<std::pair<int, Outcome>> turn(TimePoint now) {
    std::vector<std::pair<int, Outcome>> ended;
    for (const auto& one : std::exchange(arrived, {})) {
      if (has_room_for(one))
        queue.push_back(one);
      else
        ended.emplace_back(one.id,
                           pool_empty ? Outcome::kRejectedNoEndpoints : Outcome::kRejectedCapacity);
    }
    for (size_t i = 0; i < queue.size();) {
      if (!expired(queue[i], now)) {
        ++i;
        continue;
      }
      ended.emplace_back(queue[i].id,
                         regime.empty ? Outcome::kEvictedNoEndpoints : Outcome::kEvictedTtl);
      queue.erase(queue.begin() + static_cast<ptrdiff_t>(i));
    }
    while (!pool_empty && running < kSlots && !queue.empty()) {
      const auto next = std::ranges::max_element(queue, [](const auto& a, const auto& b) {
        return std::tuple(a.priority, -a.id) < std::tuple(b.priority, -b.id);
      });
      ended.emplace_back(next->id, Outcome::kDispatched);
      queue.erase(next);
      ++running;
    }
    handed = 0;
    top = INT64_MIN;
    for (const auto& one : queue) top = std::max<int64_t>(top, one.priority);
    return ended;
  }
};

class ControllerModelTest : public ::testing::TestWithParam<uint64_t> {
 protected:
  ControllerModelTest() {
    controller_.follow(fleet_);
    controller_.configure(settings());
    set_pool(false);
  }

  Settings settings() {
    Settings settings = policies_.settings();
    for (auto& band : settings.bands) band.limits.requests = kBandRequests;
    settings.limits.bytes = kAllBytes;
    settings.ttl = kTtl;
    settings.no_endpoint_ttl = kNoEndpointTtl;
    return settings;
  }
  void set_pool(bool empty) {
    testing::set_fleet(fleet_, empty ? std::vector<std::string>{} : std::vector<std::string>{""});
    model_.pool_empty = empty;
    if (empty != model_.regime.empty) model_.regime = {.empty = empty, .since = clock_.now()};
  }

  void come() {
    clock_.advance(1ms);
    load();
    const int32_t priority = std::array{10, 0, 0, -1}[rng_.below(4)];
    const auto reserved = controller_.pass(priority, policies_.detector, 1, clock_.now());
    ASSERT_EQ(reserved.has_value(), model_.passes(priority));
    if (reserved) {
      controller_.gate().settle(*reserved);
      ++model_.running;
      return;
    }
    const int id = next_id_++;
    auto one = testing::waiter(clock_.now(), "flow" + std::to_string(rng_.below(5)), priority,
                               1 + static_cast<int64_t>(rng_.below(20)));
    one->ttl = kTtl;
    one->resume = schedule::Signal(
        std::make_shared<std::function<void()>>([this, id] { woken_.push_back(id); }));
    ++model_.handed;
    model_.arrived.push_back({id, priority, one->bytes, one->enqueued});
    waiting_[id] = one.get();
    controller_.hand_over(*one.release());
  }

  void abort_one() {
    if (waiting_.empty()) return;
    auto at = waiting_.begin();
    std::advance(at, static_cast<ptrdiff_t>(rng_.below(waiting_.size())));
    ASSERT_TRUE(controller_.abandon(*at->second));
    ASSERT_TRUE(model_.drop(at->first));
    waiting_.erase(at);
  }

  void load() { policies_.detector.value = static_cast<double>(model_.running) / kSlots; }

  void turn() {
    clock_.advance(rng_.below(10) == 0 ? Nanos(1s) : Nanos(1ms));
    load();
    controller_.run();
    std::vector<std::pair<int, Outcome>> ended;
    for (const int id : std::exchange(woken_, {})) {
      ASSERT_TRUE(waiting_.contains(id)) << "woken twice: " << id;
      const std::unique_ptr<Waiter> one(waiting_[id]);
      waiting_.erase(id);
      controller_.gate().settle(one->reserved);
      ended.emplace_back(id, one->outcome);
    }
    ASSERT_EQ(ended, model_.turn(clock_.now()));
    ASSERT_EQ(controller_.waiting(), model_.queue.size());
    ASSERT_EQ(waiting_.size(), model_.queue.size());
  }

  testing::Policies policies_;
  ManualClock clock_;
  metric::Registry metrics_{1};
  fleet::Fleet fleet_;
  Controller controller_{clock_, metrics_, "pool"};
  Rng rng_{GetParam()};
  Model model_;
  std::map<int, Waiter*> waiting_;
  std::vector<int> woken_;
  int next_id_ = 0;
};

TEST_P(ControllerModelTest, BehavesLikeThePlainQueue) {
  policies_.detector.each = 1.0 / kSlots;
  turn();
  for (int step = 0; step < 20'000 && !HasFatalFailure(); ++step) {
    SCOPED_TRACE("seed " + std::to_string(GetParam()) + " step " + std::to_string(step));
    const auto action = rng_.below(100);
    if (action < 45)
      come();
    else if (action < 65)
      turn();
    else if (action < 85)
      model_.running = std::max(0, model_.running - 1);
    else if (action < 96)
      abort_one();
    else if (action < 98)
      controller_.configure(settings());
    else
      set_pool(rng_.below(3) == 0);
  }
  // The end: everyone goes.
  while (!waiting_.empty() && !HasFatalFailure()) abort_one();
  turn();
  EXPECT_EQ(controller_.waiting(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, ControllerModelTest, ::testing::Range<uint64_t>(1, 9));

}  // namespace
}  // namespace llmd::flow
