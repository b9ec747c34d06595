#include "metric/registry.h"
#include "route/director.h"
#include "route/session.h"
#include "route/testing.h"

#include <gtest/gtest.h>

#include <map>
#include <optional>

namespace llmd::regress {
namespace {

using schedule::Progress;
using schedule::RequestContext;

/// llm-d-router#1501, #2404: a producer that missed its budget made every score 0, was logged once
/// an endpoint, and went on changing what had been decided.
class SlowProducer final : public schedule::Producer {
 public:
  explicit SlowProducer(Nanos budget) : budget_(budget) {}
  Result<Progress> produce(RequestContext& context) const override {
    if (done) return Progress::kDone;
    resume = context.suspend();
    return Progress::kSuspended;
  }
  Nanos deadline() const override { return budget_; }
  mutable schedule::Signal resume;
  bool done = false;

 private:
  const Nanos budget_;
};

class Case12 : public ::testing::Test, public route::SessionSink {
 protected:
  /// A request whose producer may take `budget` and is ready after `needs`; returns when it was
  /// sent.
  Nanos decided_after(Nanos budget, Nanos needs) {
    auto pipeline = route::testing::trivial_pipeline();
    auto* producer = route::testing::own(*pipeline, std::make_unique<SlowProducer>(budget));
    pipeline->producers.push_back({producer, {}});
    director_.set_pipeline(pipeline);
    fleet_.set(route::testing::endpoints_at({8000}));
    loop_.emplace(director_, route::LoopHost{executor_, rng_, 0, [this](Nanos delay, auto work) {
                                               timers_.emplace(clock_.now() + delay,
                                                               std::move(work));
                                             }});
    session_.emplace(*loop_, *this);
    executor_.run();
    const auto begin = clock_.now();
    session_->on_headers("/v1/completions", {}, false);
    session_->on_end("body");
    timers_.emplace(begin + needs, [producer] {
      producer->done = true;
      producer->resume();
    });
    for (; !timers_.empty(); executor_.run()) {
      auto next = timers_.extract(timers_.begin());
      clock_.advance(next.key() - clock_.now());
      next.mapped()();
    }
    session_->on_abort();
    return forwarded_ - begin;
  }
  double degraded() {
    const auto page = metrics_.render();
    const auto at = page.find("\nllmd_degraded_decisions_total");
    return at == std::string::npos ? -1 : std::stod(page.substr(page.find(' ', at + 1)));
  }

  void forward(const route::Forward&) override {
    ++forwards_;
    forwarded_ = clock_.now();
  }
  void reply(const route::Reply&) override { ADD_FAILURE() << "refused"; }

  ManualClock clock_;
  Rng rng_{1};
  metric::Registry metrics_{1};
  route::testing::StepExecutor executor_;
  std::multimap<TimePoint, std::move_only_function<void()>> timers_;
  fleet::Fleet fleet_;
  route::Director director_{fleet_, metrics_, clock_};
  std::optional<route::LoopDirector> loop_;
  std::optional<route::Session> session_;
  TimePoint forwarded_{};
  int forwards_ = 0;
};

constexpr Nanos kNeeded = std::chrono::milliseconds(600);

TEST_F(Case12, AProducerMayRaiseItsBudget) {
  EXPECT_EQ(decided_after(std::chrono::seconds(1), kNeeded), kNeeded);
  EXPECT_EQ(degraded(), 0);
}

TEST_F(Case12, ALateOneIsCountedOnceAndChangesNothing) {
  EXPECT_EQ(decided_after(std::chrono::milliseconds(300), kNeeded), std::chrono::milliseconds(300));
  EXPECT_EQ(degraded(), 1);
  EXPECT_EQ(forwards_, 1);
}

}  // namespace
}  // namespace llmd::regress
