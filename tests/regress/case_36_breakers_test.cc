#include "metric/registry.h"
#include "route/director.h"
#include "route/session.h"
#include "route/testing.h"

#include <gtest/gtest.h>

#include <optional>

namespace llmd::regress {
namespace {

/// sglang#25811, #7028, #9312: refusals that clients had earned took servers out of the choice, and
/// a pool whose servers had all been away never came back.
class Case36 : public ::testing::Test, public route::SessionSink {
 protected:
  Case36() {
    director_.set_pipeline(route::testing::trivial_pipeline());
    fleet_.set(route::testing::endpoints_at({8000, 8001}));
    loop_.emplace(director_, route::LoopHost{executor_, rng_, 0, [](Nanos, auto) {}});
    session_.emplace(*loop_, *this);
    executor_.run();
  }
  void ask() {
    status_ = 0;
    forwarded_ = nullptr;
    session_->on_headers("/v1/completions", {}, false);
    session_->on_end("body");
  }
  void answer(int status) {
    session_->on_response_headers(status, {});
    session_->on_response_end();
  }
  bool all_healthy() const {
    const auto snapshot = fleet_.snapshot();
    return std::ranges::all_of(snapshot->endpoints,
                               [](const auto& e) { return e->health.healthy(); });
  }

  void forward(const route::Forward& f) override { forwarded_ = f.endpoints[0]; }
  void reply(const route::Reply& r) override { status_ = r.status; }

  ManualClock clock_;
  Rng rng_{1};
  metric::Registry metrics_{1};
  route::testing::StepExecutor executor_;
  fleet::Fleet fleet_;
  route::Director director_{fleet_, metrics_, clock_, {.ejection = {.enabled = true}}};
  std::optional<route::LoopDirector> loop_;
  std::optional<route::Session> session_;
  fleet::Endpoint* forwarded_ = nullptr;
  int status_ = 0;
};

TEST_F(Case36, ABadClientTakesNoServerOut) {
  for (const int status : {400, 429, 499})
    for (int i = 0; i < 100; ++i) {
      ask();
      answer(status);
    }
  EXPECT_TRUE(all_healthy());
}

TEST_F(Case36, ServersThatWereAllAwayComeBack) {
  for (int i = 0; i < 50; ++i) {
    clock_.advance(std::chrono::milliseconds(10));
    ask();
    while (status_ == 0) session_->on_upstream_failed(route::UpstreamFailure::kConnect);
    EXPECT_EQ(status_, 503);
  }
  EXPECT_FALSE(all_healthy());
  clock_.advance(std::chrono::minutes(1));
  for (int i = 0; i < 20; ++i) {
    ask();
    ASSERT_NE(forwarded_, nullptr);
    answer(200);
  }
  EXPECT_TRUE(all_healthy());
}

TEST_F(Case36, ProbesThatNeverEndDoNotHoldAServerForEver) {
  ask();
  while (status_ == 0) session_->on_upstream_failed(route::UpstreamFailure::kConnect);
  clock_.advance(std::chrono::minutes(1));
  ask();                 // the probe
  session_->on_abort();  // whose client leaves
  clock_.advance(std::chrono::minutes(1));
  for (int i = 0; i < 20; ++i) {
    ask();
    ASSERT_NE(forwarded_, nullptr);
    answer(200);
  }
  EXPECT_TRUE(all_healthy());
}

}  // namespace
}  // namespace llmd::regress
