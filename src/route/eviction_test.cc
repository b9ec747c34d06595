#include "session_fixture.h"

namespace llmd::route {
namespace {

const std::vector<std::string> kEvicted = {"429 request evicted by flow control [evicted]"};

TEST_F(SessionTest, EvictsARequestThatItsEndpointHas) {
  request();
  hooks_->evict();
  EXPECT_TRUE(session_->active());  // signals come through the loop
  executor_.run();
  EXPECT_EQ(replies_, kEvicted);
  EXPECT_EQ(hooks_->ends, std::vector{EndCause::kEvicted});
  EXPECT_EQ(loop_->active_sessions(), 0u);
  EXPECT_FALSE(shows("llm_d_epp_request_error_total{"));
}

TEST_F(SessionTest, EvictsInTheMiddleOfAnAnswer) {
  request();
  session_->on_response_headers(200, {});
  session_->on_response_body("x");
  hooks_->evict();
  executor_.run();
  EXPECT_EQ(replies_, kEvicted);
  EXPECT_EQ(hooks_->ends, std::vector{EndCause::kEvicted});
}

TEST_F(SessionTest, EvictsOnce) {
  request();
  hooks_->evict();
  hooks_->evict();
  executor_.run();
  hooks_->evict();
  executor_.run();
  EXPECT_EQ(replies_, kEvicted);
}

TEST_F(SessionTest, IgnoresAnEvictionThatComesTooLate) {
  request();
  const auto late = hooks_->evict;
  session_->on_response_headers(200, {});
  session_->on_response_end();
  request();  // another one of the same connection
  late();
  executor_.run();
  EXPECT_TRUE(session_->active());
  EXPECT_TRUE(replies_.empty());
  session_.reset();
  hooks_->evict();
  executor_.run();  // the session is gone
}

TEST_F(SessionTest, EvictsAlsoAfterARetry) {
  set_fleet({"a", "b"});
  request();
  const auto first = hooks_->evict;
  session_->on_upstream_failed(UpstreamFailure::kConnect);
  ASSERT_EQ(forwarded_.size(), 2u);
  first();
  executor_.run();
  EXPECT_EQ(replies_, kEvicted);
  EXPECT_EQ(hooks_->ends, (std::vector{EndCause::kError, EndCause::kEvicted}));
}

}  // namespace
}  // namespace llmd::route
