#include "route/director.h"
#include "route/session.h"
#include "route/testing.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace llmd::route {
namespace {

using schedule::Decision;
using testing::StepExecutor;

/// A loop with a history, and a session on it.
class DecisionKeeperTest : public ::testing::Test, public SessionSink {
 protected:
  DecisionKeeperTest()
      : director_(fleet_, metrics_, clock_, {.decision_history = 16}),
        pipeline_(testing::trivial_pipeline(testing::Body::kIsTheModel)) {
    director_.set_pipeline(pipeline_);
    fleet_.set(testing::endpoints_at({8000, 8001}));
    loop_.emplace(director_, LoopHost{executor_, rng_, 0, {}});
    session_.emplace(*loop_, *this);
  }

  void post(std::string_view id, std::string_view body) {
    headers_ = {{"x-request-id", id}};
    session_->on_headers("/v1/completions?key=secret", HeaderView(headers_), false);
    session_->on_end(body);
  }

  /// What the history has of a request, from its first try on.
  std::vector<Decision> decisions(const std::string& id, size_t limit = 99) {
    bool answered = false;
    director_.find_decisions({.request_id = id, .limit = limit}, executor_,
                             [&](Director::Decisions found) {
                               found_ = std::move(found);
                               answered = true;
                             });
    executor_.run();
    EXPECT_TRUE(answered);
    std::vector<Decision> out;
    for (auto kept = found_.rbegin(); kept != found_.rend(); ++kept) out.push_back(kept->read());
    return out;
  }

  void forward(const Forward& forward) override { sent_to_ = forward.endpoints[0]; }
  void reply(const Reply&) override {}

  ManualClock clock_;
  metric::Registry metrics_{1};
  fleet::Fleet fleet_;
  StepExecutor executor_;
  Rng rng_{1};
  Director director_;
  std::shared_ptr<schedule::Pipeline> pipeline_;
  std::optional<LoopDirector> loop_;
  std::optional<Session> session_;
  std::vector<HeaderField> headers_;
  fleet::Endpoint* sent_to_ = nullptr;
  Director::Decisions found_;
};

TEST_F(DecisionKeeperTest, KeepsWhereARequestWent) {
  post("r", "model");
  const auto kept = decisions("r");
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_EQ(kept[0].target, sent_to_);
  EXPECT_EQ(kept[0].model, "model");
  EXPECT_EQ(kept[0].path, "/v1/completions") << "without the query";
  EXPECT_EQ(kept[0].candidates, 2u);
  EXPECT_EQ(kept[0].primary, 0);
  EXPECT_EQ(found_[0].outline->profiles[0].name, "default");
}

TEST_F(DecisionKeeperTest, KeepsEveryTryAndTheAnswer) {
  post("r", "model");
  const auto* first = sent_to_;
  session_->on_upstream_failed(UpstreamFailure::kConnect);
  const auto* second = sent_to_;
  session_->on_upstream_failed(UpstreamFailure::kTimeout);
  const auto kept = decisions("r");
  ASSERT_EQ(kept.size(), 3u);
  EXPECT_EQ(kept[0].target, first);
  EXPECT_EQ(kept[1].target, second);
  EXPECT_EQ(kept[1].number, 2);
  EXPECT_EQ(kept[1].after, "connect");
  EXPECT_EQ(kept[1].candidates, 1u) << "without the one that failed";
  EXPECT_EQ(kept[2].target, nullptr);
  EXPECT_FALSE(kept[2].decided);
  EXPECT_EQ(kept[2].status, 504);
  EXPECT_EQ(kept[2].number, 2);
}

TEST_F(DecisionKeeperTest, KeepsWhoServedInstead) {
  post("r", "model");
  const auto& endpoints = fleet_.snapshot()->endpoints;
  const auto& other = endpoints[endpoints[0].get() == sent_to_ ? 1 : 0];
  session_->on_response_headers(200, {}, other->host_port());
  session_->on_response_end();
  const auto kept = decisions("r");
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_EQ(kept[1].target, other.get());
  EXPECT_FALSE(kept[1].decided);
}

TEST_F(DecisionKeeperTest, KeepsWhatCutARequestOff) {
  post("r", "model");
  session_->on_abort(schedule::EndCause::kShutdown);
  post("large", "model");
  session_->refuse(413, {Code::kResourceExhausted, "request body too large", {}});
  const auto cut_off = decisions("r");
  ASSERT_EQ(cut_off.size(), 2u);
  EXPECT_EQ(cut_off[1].error, "cut off by the shutdown");
  EXPECT_EQ(cut_off[1].status, 0);
  const auto large = decisions("large");
  ASSERT_EQ(large.size(), 2u);
  EXPECT_EQ(large[1].error, "request body too large");
  EXPECT_EQ(large[1].status, 413);
}

TEST_F(DecisionKeeperTest, KeepsRefusalsWithTheirReason) {
  post("unreadable", "bad");
  fleet_.set({});
  executor_.run();
  post("nobody", "model");
  const auto unreadable = decisions("unreadable");
  ASSERT_EQ(unreadable.size(), 1u);
  EXPECT_EQ(unreadable[0].status, 400);
  EXPECT_EQ(unreadable[0].error, "unreadable");
  const auto nobody = decisions("nobody");
  ASSERT_EQ(nobody.size(), 1u);
  EXPECT_EQ(nobody[0].status, 503);
  EXPECT_EQ(nobody[0].drop_reason, "rejected-no-endpoints");
}

TEST_F(DecisionKeeperTest, KeepsClientsThatLeaveBeforeTheDecision) {
  headers_ = {{"x-request-id", "gone"}};
  session_->on_headers("/p", HeaderView(headers_), false);
  session_->on_abort();
  post("served", "model");
  session_->on_abort();
  const auto gone = decisions("gone");
  ASSERT_EQ(gone.size(), 1u);
  EXPECT_EQ(gone[0].status, 0);
  EXPECT_EQ(decisions("served").size(), 1u) << "it had gone to an endpoint";
}

TEST_F(DecisionKeeperTest, KeepsRequestsWithoutABody) {
  headers_ = {{"x-request-id", "r"}};
  session_->on_headers("/v1/models", HeaderView(headers_), true);
  const auto kept = decisions("r");
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_EQ(kept[0].target, sent_to_);
  EXPECT_TRUE(kept[0].profiles.empty());
}

TEST_F(DecisionKeeperTest, FindsTheNewestOfAllLoops) {
  LoopDirector other(director_, LoopHost{executor_, rng_, 1, {}});
  Session elsewhere(other, *this);
  std::vector<std::string> ids;
  for (int i = 0; i < 6; ++i) {
    clock_.advance(Nanos(1));
    ids.push_back("r" + std::to_string(i));
    headers_ = {{"x-request-id", ids.back()}};
    auto& session = i % 2 == 0 ? *session_ : elsewhere;
    session.on_headers("/v1/models", HeaderView(headers_), true);
    session.on_abort();
  }
  const auto newest = decisions("", 3);
  ASSERT_EQ(newest.size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(newest[i].request_id, ids[3 + i]);
}

TEST_F(DecisionKeeperTest, AnswersWhenLoopsAreGone) {
  post("r", "model");
  bool answered = false;
  director_.find_decisions({.request_id = "r", .limit = 1}, executor_,
                           [&](const Director::Decisions& found) {
                             EXPECT_TRUE(found.empty());
                             answered = true;
                           });
  session_.reset();
  loop_.reset();
  executor_.run();
  EXPECT_TRUE(answered);
}

}  // namespace
}  // namespace llmd::route
