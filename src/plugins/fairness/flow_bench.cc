#include "base/counted_heap.h"
#include "base/rng.h"
#include "flow/controller.h"
#include "flow/flow_admission.h"
#include "flow/testing.h"
#include "schedule/testing.h"

#include <benchmark/benchmark.h>

#include <cstdlib>

/// What flow control costs: letting a request by, a wait from beginning to end, dispatch among many
/// flows, and 100 000 requests that wait.

namespace llmd::plugins {

const plugin::Descriptor& fcfs_ordering_policy();
const plugin::Descriptor& global_strict_fairness_policy();
const plugin::Descriptor& round_robin_fairness_policy();
const plugin::Descriptor& token_fairness_policy();

namespace {

using namespace std::chrono_literals;
using flow::testing::at;

/// Flow control with bands 10, 0 and -1 under a fairness policy.
struct Stage {
  explicit Stage(const plugin::Descriptor& fairness, const Clock& clock = real_clock())
      : controller(clock, metrics, "pool") {
    const auto& order = harness.make<flow::OrderingPolicy>(fcfs_ordering_policy());
    const auto& fair = harness.make<flow::FairnessPolicy>(fairness);
    settings = policies.settings();
    for (auto& band : settings.bands) band.ordering = &order, band.fairness = &fair;
    settings.other = settings.bands[1];
    queues.configure(settings, at(0s));
    flow::testing::set_fleet(fleet, {"", "", "", "", "", "", "", ""});
    controller.follow(fleet);
    controller.configure(settings);
  }

  schedule::testing::Harness harness{0};
  flow::testing::Policies policies;
  flow::Settings settings;
  flow::Queues queues;
  fleet::Fleet fleet;
  metric::Registry metrics{1};
  flow::Controller controller;
};

/// Requests that come to wait, as suspended sessions let them: of 1 000 tenants, while the pool is
/// full.
class Crowd {
 public:
  static constexpr int kSize = 100'000;

  explicit Crowd(const Clock& clock = real_clock())
      : stage(round_robin_fairness_policy(), clock), context_(arena_, rng_, clock) {
    waiters_.reserve(kSize);
    stage.policies.detector.value = 1;
    for (auto& band : stage.settings.bands) band.limits = {};
    stage.controller.configure(stage.settings);
    admission_ = flow::flow_admission(stage.controller, stage.settings);
    context_.target_model = "model";
    // As a suspended session makes it.
    context_.make_resume = [this] {
      return schedule::Signal(std::make_shared<std::function<void()>>(
          [weak = std::weak_ptr(anchor_), ticket = uint64_t{1}, this] {
            benchmark::DoNotOptimize(ticket + woken_);
            if (!weak.expired()) ++woken_;
          }));
    };
  }
  ~Crowd() {
    leave();
    stage.controller.run();
  }

  void come(int count) {
    for (int i = 0; i < count; ++i) {
      const auto id = "tenant-" + std::to_string(i % 1000);
      context_.fairness_id = id;
      context_.admitted = {};
      (void)admission_->admit(context_, {});
      waiters_.push_back(context_.admitted.waiter);
    }
  }
  void leave() {
    context_.fairness_id = "tenant-1";
    for (void* waiter : std::exchange(waiters_, {})) {
      context_.admitted.waiter = waiter;
      admission_->leave(context_, schedule::EndCause::kClientDisconnect);
    }
  }

  Stage stage;

 private:
  struct Anchor {
    uint64_t ticket;
  };
  const std::shared_ptr<Anchor> anchor_ = std::make_shared<Anchor>();
  uint64_t woken_ = 0;
  Arena arena_;
  Rng rng_{1};
  schedule::RequestContext context_;
  std::unique_ptr<schedule::Admission> admission_;
  std::vector<void*> waiters_;
};

/// A request that need not wait: admitted, and settled as when its load shows.
void pass_by(benchmark::State& state) {
  Stage stage(round_robin_fairness_policy());
  stage.policies.detector.each = 1e-7;
  stage.policies.detector.sizes.reserve(1 << 20);
  const auto admission = flow::flow_admission(stage.controller, stage.settings);
  Arena arena;
  Rng rng(1);
  schedule::RequestContext context(arena, rng, real_clock());
  context.fairness_id = "tenant-1";
  context.target_model = "model";
  const size_t before = counted_heap::allocations();
  size_t warm = before;
  for (auto _ : state) {
    context.admitted = {};
    benchmark::DoNotOptimize(admission->admit(context, {}));
    admission->settle(context);
    if (warm == before) warm = counted_heap::allocations();
  }
  state.counters["allocations"] = benchmark::Counter(
      static_cast<double>(counted_heap::allocations() - warm), benchmark::Counter::kAvgIterations);
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(pass_by);

/// Into a queue and out again while nothing else waits: enqueue, dispatch, release.
void wait_alone(benchmark::State& state) {
  Stage stage(round_robin_fairness_policy());
  stage.policies.detector.each = 1e-7;
  auto& gate = stage.controller.gate();
  gate.renew(real_clock().now());
  const auto waiter = flow::testing::waiter(at(1s));
  flow::Band& band = *stage.queues.bands()[1];
  const auto& band_gate = *gate.find(0);
  stage.queues.enqueue(*waiter, at(1s));
  stage.queues.dispatch(*waiter, at(1s));
  const size_t before = counted_heap::allocations();
  for (auto _ : state) {
    stage.queues.enqueue(*waiter, at(1s));
    flow::Waiter* next = stage.queues.first(band, at(1s));
    const uint64_t units = gate.units(stage.policies.detector, 1);
    benchmark::DoNotOptimize(gate.reserve(band_gate, units));
    stage.queues.dispatch(*next, at(1s));
    gate.settle(units);
    if (!gate.open(band_gate)) gate.renew(real_clock().now());
  }
  state.counters["allocations"] =
      benchmark::Counter(static_cast<double>(counted_heap::allocations() - before),
                         benchmark::Counter::kAvgIterations);
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(wait_alone);

/// 5 000 flows in each of three bands, four requests each: all of them leave, in order.
void dispatch(benchmark::State& state, const plugin::Descriptor& (*fairness)()) {
  constexpr int kFlows = 5000, kEach = 4;
  Stage stage(fairness());
  auto& gate = stage.controller.gate();
  gate.renew(real_clock().now());
  std::vector<std::unique_ptr<flow::Waiter>> waiters;
  Rng rng(1);
  for (int i = 0; i < kFlows * kEach; ++i)
    for (const int32_t priority : {10, 0, -1}) {
      const auto when = at(std::chrono::microseconds(i));
      waiters.push_back(
          flow::testing::waiter(when, "tenant-" + std::to_string(rng.below(kFlows)), priority));
      waiters.back()->tokens = static_cast<int64_t>(100 + rng.below(4000));
    }
  size_t during = 0;
  for (auto _ : state) {
    state.PauseTiming();
    for (auto& waiter : waiters) stage.queues.enqueue(*waiter, at(1s));
    const size_t before = counted_heap::allocations();
    state.ResumeTiming();
    const auto bands = stage.queues.bands();
    for (size_t i = 0; i < bands.size();) {
      if (!gate.open(*gate.find(bands[i]->priority()))) break;
      flow::Waiter* next = stage.queues.first(*bands[i], at(1s));
      if (!next) {
        ++i;
        continue;
      }
      gate.reserve(*gate.find(bands[i]->priority()), 0);
      stage.queues.dispatch(*next, at(1s));
    }
    during += counted_heap::allocations() - before;
  }
  state.counters["allocations"] = static_cast<double>(during);
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(waiters.size()));
}
BENCHMARK_CAPTURE(dispatch, global_strict, global_strict_fairness_policy)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(dispatch, round_robin, round_robin_fairness_policy)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(dispatch, tokens, token_fairness_policy)->Unit(benchmark::kMillisecond);

/// A turn of the dispatcher while 100 000 requests wait and the pool is full: the expiry sweep, a
/// reading of eight endpoints, and nothing to do. Counts what a waiter takes.
void turn_with_100k_waiting(benchmark::State& state) {
  constexpr int kWaiting = Crowd::kSize;
  Crowd crowd;
  auto& controller = crowd.stage.controller;
  crowd.come(1000);  // flows and series are there
  controller.run();
  const size_t before = counted_heap::bytes();
  crowd.come(kWaiting - 1000);
  const auto waiters = static_cast<double>(counted_heap::bytes() - before);
  controller.run();
  const auto taken = static_cast<double>(counted_heap::bytes() - before);
  for (auto _ : state) controller.run();
  state.counters["bytes_each"] = taken / (kWaiting - 1000);
  state.counters["of_them_queues"] = (taken - waiters) / (kWaiting - 1000);
}
BENCHMARK(turn_with_100k_waiting)->Unit(benchmark::kMicrosecond);

/// A turn in which `count` requests come to a queue of 100 000: each is asked how many are ahead.
void arrive_behind_100k(benchmark::State& state) {
  const auto count = static_cast<int>(state.range(0));
  Crowd crowd;
  crowd.come(Crowd::kSize);
  crowd.stage.controller.run();
  for (auto _ : state) {
    state.PauseTiming();
    crowd.come(count);
    state.ResumeTiming();
    crowd.stage.controller.run();
  }
  state.SetItemsProcessed(state.iterations() * count);
}
BENCHMARK(arrive_behind_100k)->Arg(1000)->Unit(benchmark::kMicrosecond)->Iterations(100);

/// The longest turn of the dispatcher while 100 000 wait and so many of them come due at once, and
/// how long it takes until the last one has gone, the pauses between turns left out.
void sweep(benchmark::State& state) {
  const auto due = static_cast<int>(state.range(0));
  double longest = 0, whole = 0;
  for (auto _ : state) {
    ManualClock clock;
    Crowd crowd(clock);
    auto& controller = crowd.stage.controller;
    crowd.come(due);
    controller.run();
    clock.advance(1s);
    crowd.come(Crowd::kSize - due);
    controller.run();
    clock.advance(59s);
    double all = 0;
    const size_t left = 100'000 - static_cast<size_t>(due);
    while (controller.waiting() > left) {
      const auto begin = std::chrono::steady_clock::now();
      controller.run();
      const double took = seconds(std::chrono::steady_clock::now() - begin);
      all += took;
      longest = std::max(longest, took);
      clock.advance(1ms);
    }
    state.SetIterationTime(all);
    whole = all;
  }
  state.counters["longest_turn_us"] = longest * 1e6;
  state.counters["whole_ms"] = whole * 1e3;
}
BENCHMARK(sweep)
    ->Arg(1000)
    ->Arg(100'000)
    ->UseManualTime()
    ->Unit(benchmark::kMillisecond)
    ->Iterations(5);

/// 100 tenants that always have work, of lengths of their own: how far the tokens of 10 000
/// dispatches are from equal shares.
void fairness_of_tokens(benchmark::State& state) {
  constexpr int kTenants = 100, kDispatches = 10'000;
  double worst = 0, mean = 0;
  for (auto _ : state) {
    Stage stage(token_fairness_policy());
    Rng rng(1);
    std::vector<std::unique_ptr<flow::Waiter>> waiters;
    const auto add = [&](int tenant) {
      auto& one =
          *waiters.emplace_back(flow::testing::waiter(at(1s), "tenant-" + std::to_string(tenant)));
      one.tokens =
          static_cast<int64_t>(64 + rng.below(64 * (1 + static_cast<uint64_t>(tenant) % 8)));
      stage.queues.enqueue(one, at(1s));
    };
    for (int tenant = 0; tenant < kTenants; ++tenant) add(tenant), add(tenant);
    std::vector<double> served(kTenants);
    double total = 0;
    for (int i = 0; i < kDispatches; ++i) {
      flow::Waiter* next = stage.queues.first(*stage.queues.bands()[1], at(1s));
      const int tenant = std::atoi(next->fairness_id.c_str() + 7);
      served[static_cast<size_t>(tenant)] += static_cast<double>(next->tokens);
      total += static_cast<double>(next->tokens);
      stage.queues.dispatch(*next, at(1s));
      add(tenant);
    }
    const double share = total / kTenants;
    worst = mean = 0;
    for (const double tokens : served) {
      worst = std::max(worst, std::abs(tokens - share) / share);
      mean += std::abs(tokens - share) / share / kTenants;
    }
  }
  state.counters["worst_percent"] = worst * 100;
  state.counters["mean_percent"] = mean * 100;
}
BENCHMARK(fairness_of_tokens)->Unit(benchmark::kMillisecond)->Iterations(1);

}  // namespace
}  // namespace llmd::plugins

BENCHMARK_MAIN();
