#include "schedule/attributes.h"
#include "schedule/testing.h"

#include <gtest/gtest.h>

namespace llmd::plugins {
const plugin::Descriptor& agent_identity();
const plugin::Descriptor& session_id_producer();

namespace {

using schedule::Text;
using schedule::testing::Harness;
using Fields = std::vector<HeaderField>;

/// What the request's attribute `key` is after `run`; "" when it was not set.
std::string value_of(Harness& harness, const std::string& key) {
  const auto* text =
      harness.context.get(harness.wiring.consumes_value<Text>(key, schedule::Need::kOptional));
  return text ? std::string(text->value) : "";
}

/// The identity and the fairness id of a request with these headers.
std::pair<std::string, std::string> identity(const Fields& fields, std::string_view parameters = "",
                                             std::string_view fairness = "default-flow") {
  Harness harness(1);
  harness.context.headers = HeaderView(fields);
  harness.context.fairness_id = fairness;
  const auto& hook = harness.make<schedule::RequestHook>(agent_identity(), parameters);
  EXPECT_TRUE(hook.on_request(harness.context));
  return {value_of(harness, "agent-identity/"), std::string(harness.context.fairness_id)};
}

using Pair = std::pair<std::string, std::string>;

TEST(AgentIdentity, TakesTheFirstHeaderThatIsNotEmpty) {
  EXPECT_EQ(identity({}), Pair("", "default-flow"));
  EXPECT_EQ(identity({{"session_id", "d"}}), Pair("d", "d"));
  EXPECT_EQ(identity({{"session_id", "d"}, {"Session-Id", "c"}, {"X-Session-Affinity", "b"}}),
            Pair("b", "b"));
  EXPECT_EQ(identity({{"x-session-affinity", "b"}, {"x-claude-code-session-id", " "}}),
            Pair("b", "b"));
  EXPECT_EQ(identity({{"x-claude-code-session-id", "a"}, {"X-Agent", "z"}},
                     "{additionalSessionHeaders: [X-Agent]}"),
            Pair("z", "z"));
}

TEST(AgentIdentity, LeavesTheFairnessIdThatTheRequestNames) {
  EXPECT_EQ(identity({{"session-id", "c"}}, "", "tenant"), Pair("c", "tenant"));
}

std::string session(const Fields& fields, std::string_view parameters) {
  Harness harness(1);
  harness.context.headers = HeaderView(fields);
  const auto& producer = harness.make<schedule::Producer>(session_id_producer(), parameters);
  EXPECT_TRUE(producer.produce(harness.context));
  return value_of(harness, "SessionIDDataKey/session-id-producer");
}

TEST(SessionIdProducer, ReadsAHeader) {
  EXPECT_EQ(session({{"X-Session", " s1 "}}, "{headerName: x-SESSION}"), "s1");
  EXPECT_EQ(session({{"x-session", " "}}, "{headerName: x-session}"), "");
  EXPECT_EQ(session({}, "{headerName: x-session}"), "");
}

TEST(SessionIdProducer, ReadsACookie) {
  constexpr auto kCookie = "{cookieName: sid}";
  EXPECT_EQ(session({{"Cookie", "a=b; sid=s=1 ; sid=2"}}, kCookie), "s=1");
  EXPECT_EQ(session({{"cookie", "SID=s1; xsid=2; sid"}}, kCookie), "");
  EXPECT_EQ(session({{"cookie", "a=b"}, {"cookie", "sid=s2"}}, kCookie), "s2");
}

TEST(SessionIdProducer, NeedsExactlyOneSource) {
  Harness harness(1);
  EXPECT_FALSE(harness.try_make(session_id_producer()));
  EXPECT_FALSE(harness.try_make(session_id_producer(), "{headerName: a, cookieName: b}"));
}

}  // namespace
}  // namespace llmd::plugins
