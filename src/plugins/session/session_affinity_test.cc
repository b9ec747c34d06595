#include "schedule/attributes.h"
#include "schedule/testing.h"

#include <gtest/gtest.h>

namespace llmd::plugins {
const plugin::Descriptor& session_affinity_scorer();
const plugin::Descriptor& session_affinity_filter();
const plugin::Descriptor& multicluster_session_affinity_filter();

namespace {

using schedule::Filter;
using schedule::PreRequest;
using schedule::ResponseHook;
using schedule::Scorer;
using schedule::testing::Harness;
using Doubles = std::vector<double>;
using Kept = std::vector<uint32_t>;

constexpr auto kById = "{strategy: session_id}";
constexpr auto kToken1 = "ZGVmYXVsdC9lMQ==";  // default/e1

class SessionTest : public ::testing::Test {
 protected:
  SessionTest() { harness_.clock.advance(std::chrono::hours(1)); }

  void configure(std::string_view parameters = "") {
    scorer_ = &harness_.make<Scorer>(session_affinity_scorer(), parameters);
  }
  void request(std::string_view name = "", std::string_view value = "") {
    harness_.fresh_request();
    field_ = {name, value};
    harness_.context.headers = {{&field_, name.empty() ? 0u : 1u}};
  }
  Doubles scores() { return harness_.scores(*scorer_); }
  /// A request of the session that goes to `target`.
  void serve(std::string_view session, uint32_t target) {
    request("X-Session-Id", session);
    scores();
    send_to(target);
  }
  void send_to(uint32_t target, uint16_t profile = 0) {
    harness_.choose(profile, target, profile == 0);
    EXPECT_TRUE(dynamic_cast<const PreRequest*>(scorer_)->pre_request(harness_.context));
  }
  Doubles scores_of(std::string_view session) {
    request("x-session-id", session);
    return scores();
  }
  std::string answered(std::string_view header = "x-session-token") {
    dynamic_cast<const ResponseHook*>(scorer_)->on_response_head(harness_.context);
    for (const auto& field : harness_.context.response_headers.fields())
      if (field.name == header) return std::string(field.value);
    return "";
  }

  Harness harness_{3};
  const Scorer* scorer_ = nullptr;
  HeaderField field_;
  const Doubles none_ = Doubles(3, 0);
};

TEST_F(SessionTest, FollowsTheTokenOfTheClient) {
  configure();
  request("X-Session-Token", kToken1);
  EXPECT_EQ(scores(), (Doubles{0, 1, 0}));
}

TEST_F(SessionTest, IgnoresTokensThatNameNobody) {
  configure();
  for (const auto* token : {"", "x", "ZGVmYXVsdC9lOQ==", "ZGVmYXVsdC9lMQ"}) {
    request("x-session-token", token);
    EXPECT_EQ(scores(), none_) << token;
  }
}

TEST_F(SessionTest, AnswersWithTheTokenOfTheEndpoint) {
  configure("{encodedEndpointHeaderConfig: {header: ' X-Mine '}}");
  request();
  scores();
  send_to(1);
  EXPECT_EQ(answered("x-mine"), kToken1);
}

TEST_F(SessionTest, AnswersForTheNamedProfile) {
  configure("{profileName: prefill}");
  request();
  scores();
  send_to(0);
  EXPECT_EQ(answered(), "");
  send_to(1, 1);
  EXPECT_EQ(answered(), kToken1);
}

TEST_F(SessionTest, RemembersSessions) {
  configure(kById);
  EXPECT_EQ(scores_of("s"), none_);
  serve("s", 2);
  EXPECT_EQ(scores_of(" s "), (Doubles{0, 0, 1}));
  EXPECT_EQ(scores_of("t"), none_);
  EXPECT_EQ(answered(), "");
}

TEST_F(SessionTest, KeepsTheBindingWhileItsEndpointIsACandidate) {
  configure(kById);
  serve("s", 2);
  serve("s", 0);
  EXPECT_EQ(scores_of("s"), (Doubles{0, 0, 1}));
}

TEST_F(SessionTest, RebindsWhenTheEndpointIsNoCandidate) {
  configure(kById);
  serve("s", 2);
  request("x-session-id", "s");
  const uint32_t selected[] = {0, 1};
  double out[2] = {};
  scorer_->score(harness_.context, selected, out);
  EXPECT_EQ(out[0] + out[1], 0);
  send_to(0);
  EXPECT_EQ(scores_of("s"), (Doubles{1, 0, 0}));
}

TEST_F(SessionTest, ForgetsSessionsAfterTheirTime) {
  configure("{strategy: session_id, sessionIdConfig: {evictionTtlSeconds: 60}}");
  serve("s", 2);
  harness_.clock.advance(std::chrono::seconds(60));
  EXPECT_EQ(scores_of("s"), (Doubles{0, 0, 1}));
  send_to(2);  // refreshes it
  harness_.clock.advance(std::chrono::seconds(60));
  EXPECT_EQ(scores_of("s"), (Doubles{0, 0, 1}));
  harness_.clock.advance(std::chrono::seconds(61));
  EXPECT_EQ(scores_of("s"), none_);
}

TEST_F(SessionTest, TakesTheFirstSourceThatIsNotEmpty) {
  configure(
      "{strategy: session_id, sessionIdConfig: {sources: [{header: X-A}, {attribute: "
      "SessionIDDataKey, producer: session-id-producer}]}}");
  const auto with_attribute = [&](std::string_view name, std::string_view value) {
    request(name, value);
    harness_.provide_value<schedule::Text>("SessionIDDataKey/session-id-producer", {"attr"});
    return scores();
  };
  with_attribute("x-a", "head");
  send_to(0);
  with_attribute("x-b", "head");
  send_to(1);
  EXPECT_EQ(with_attribute("x-a", "head"), (Doubles{1, 0, 0}));
  EXPECT_EQ(with_attribute("x-a", " "), (Doubles{0, 1, 0}));
}

TEST_F(SessionTest, RefusesSourcesWithoutMeaning) {
  for (const auto* source : {"{}", "{header: a, attribute: b}", "{producer: p}", "{header: ''}"})
    EXPECT_FALSE(harness_.try_make(
        session_affinity_scorer(),
        "{strategy: session_id, sessionIdConfig: {sources: [" + std::string(source) + "]}}"))
        << source;
  EXPECT_FALSE(harness_.try_make(session_affinity_scorer(), "{strategy: cookies}"));
  EXPECT_FALSE(
      harness_.try_make(session_affinity_scorer(), "{sessionIdConfig: {evictionTtlSeconds: 0}}"));
}

TEST_F(SessionTest, FilterKeepsOnlyTheBoundEndpoint) {
  for (const auto* descriptor :
       {&session_affinity_filter(), &multicluster_session_affinity_filter()}) {
    const auto& filter = harness_.make<Filter>(*descriptor);
    request("x-session-token", kToken1);
    EXPECT_EQ(harness_.filtered(filter), Kept{1});
    request("x-session-token", "eA==");
    EXPECT_EQ(harness_.filtered(filter), (Kept{0, 1, 2}));
    EXPECT_EQ(descriptor->stability, plugin::Stability::kAlpha);
  }
}

}  // namespace
}  // namespace llmd::plugins
