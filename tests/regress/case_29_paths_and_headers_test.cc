#include "idle_fleet.h"

#include "ext_proc/header_rules.h"
#include "ext_proc/messages.h"

#include <gtest/gtest.h>

namespace llmd::regress {
namespace {

/// llm-d-router#1585, #1515, GIE#2024, #2025: queries hid the API, header values were read from one
/// of two fields only, and headers that steer requests were taken from clients.

TEST(Case29, AQueryIsNoPartOfTheApi) {
  conformance::Picker picker(idle_fleet(1));
  auto step = completion("probe", "\"p\"");
  step.path = "/v1/messages?beta=true";
  EXPECT_EQ(
      picker.run(step).error,
      "inference error: BadRequest - invalid messages request: must have at least one message");
  step.path = "/v1/chat/completions/render";
  EXPECT_EQ(picker.run(step).error,
            "inference error: BadRequest - invalid chat completions request: must have valid "
            "messages field");
  step.path = "/v1/completions/?x";
  EXPECT_EQ(picker.run(step).error, "");
}

TEST(Case29, EitherFieldOfAHeaderHoldsItsValue) {
  using namespace std::literals;
  std::vector<HeaderField> headers;
  // HeaderMap{headers: [{key: "a", value: "1"}, {key: "b", raw_value: "2"}]}
  ASSERT_TRUE(
      frontend::ext_proc::read_headers("\x0a\x06\x0a\x01"
                                       "a\x12\x01"
                                       "1\x0a\x06\x0a\x01"
                                       "b\x1a\x01"
                                       "2"sv,
                                       headers));
  const HeaderView view(headers);
  EXPECT_EQ(view.get("a"), "1");
  EXPECT_EQ(view.get("b"), "2");
}

TEST(Case29, ClientsDoNotSteer) {
  const std::vector<HeaderField> sent = {{"x-gateway-destination-endpoint", "6.6.6.6:1"},
                                         {"content-length", "5"},
                                         {"x-prefiller-host-port", "6.6.6.6:1"},
                                         {"accept", "a"}};
  std::vector<HeaderField> again;
  frontend::ext_proc::echo(HeaderView(sent), again);
  ASSERT_EQ(again.size(), 1u);
  EXPECT_EQ(again[0].name, "accept");
  EXPECT_TRUE(frontend::ext_proc::is_removed("x-prefiller-host-port"));
}

TEST(Case29, ADestinationOfTheClientDoesNotLimitTheChoice) {
  conformance::Picker picker(idle_fleet(3));
  auto step = completion("probe", "\"p\"");
  step.headers = {{"x-gateway-destination-endpoint", "6.6.6.6:1"},
                  {"x-gateway-destination-endpoint-subset", "6.6.6.6:1"}};
  EXPECT_EQ(picker.run(step).scores.size(), 3u);
}

}  // namespace
}  // namespace llmd::regress
