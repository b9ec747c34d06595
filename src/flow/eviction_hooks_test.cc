#include "flow/eviction_hooks.h"

#include "schedule/testing.h"

#include <gtest/gtest.h>

namespace llmd::flow {
namespace {

using schedule::EndCause;
using schedule::testing::Harness;

class EvictionHooksTest : public ::testing::Test {
 protected:
  EvictionHooksTest() {
    harness_.context.make_eviction = [this] {
      return schedule::Signal(std::make_shared<std::function<void()>>([this] { ++evicted_; }));
    };
    harness_.wiring.begin(hooks_);
    hooks_.wire(harness_.wiring);
    harness_.context.priority = -1;
    view_.prompts = {&prompt_, 1};
    harness_.context.request = &view_;
  }
  void send() { EXPECT_TRUE(hooks_.pre_request(harness_.context)); }
  void end(EndCause cause, const request::Usage& usage = {}) {
    hooks_.on_end(harness_.context, cause, usage);
  }
  std::string page() { return harness_.metric_registry().render(); }

  Harness harness_{1};
  const std::shared_ptr<Evictor> evictor_ =
      std::make_shared<Evictor>(harness_.metric_registry(), harness_.clock, "pool");
  EvictionHooks hooks_{evictor_};
  std::vector<uint32_t> ids_ = std::vector<uint32_t>(30, 1);
  request::Prompt prompt_{.token_ids = ids_, .media = {}, .pieces = {}};
  request::RequestView view_;
  int evicted_ = 0;
};

TEST_F(EvictionHooksTest, ARequestCountsFromItsSendingToItsEnd) {
  send();
  EXPECT_EQ(evictor_->in_flight(), 1);
  end(EndCause::kNatural);
  EXPECT_EQ(evictor_->in_flight(), 0);
  EXPECT_EQ(page().find("llmd_flow_revoked_tokens_total{"), std::string::npos);
}

TEST_F(EvictionHooksTest, EveryTryCountsByItself) {
  send();
  end(EndCause::kError);
  send();
  EXPECT_EQ(evictor_->in_flight(), 1);
  const Claim claims[] = {{.priority = 0, .ceiling = 1, .waits = true}};
  EXPECT_EQ(evictor_->reclaim(1, claims, Nanos{0}), 1u);
  EXPECT_EQ(evicted_, 1);
}

TEST_F(EvictionHooksTest, CountsWhatARevokedRequestHadUsed) {
  send();
  hooks_.on_first_chunk(harness_.context);
  end(EndCause::kEvicted, {.completion_tokens = 12});
  EXPECT_NE(page().find("kind=\"prompt\",priority=\"-1\"} 30\n"), std::string::npos);
  EXPECT_NE(page().find("kind=\"output\",priority=\"-1\"} 12\n"), std::string::npos);
}

TEST_F(EvictionHooksTest, CountsNoPromptBeforeTheAnswerHasBegun) {
  send();
  end(EndCause::kEvicted);
  EXPECT_NE(page().find("kind=\"prompt\",priority=\"-1\"} 0\n"), std::string::npos);
}

}  // namespace
}  // namespace llmd::flow
