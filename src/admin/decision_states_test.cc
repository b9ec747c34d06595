#include "decision_states.h"

#include "schedule/testing.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace llmd::admin {
namespace {

using nlohmann::json;
using schedule::testing::Harness;

std::string error_of(std::string_view query) {
  const auto parsed = parse_decision_query(query);
  return parsed ? "" : parsed.error().message;
}

TEST(DecisionQuery, ReadsParameters) {
  EXPECT_EQ(parse_decision_query("")->limit, 50u);
  EXPECT_EQ(parse_decision_query("limit=7")->limit, 7u);
  const auto both = parse_decision_query("request_id=a%26%25b&limit=1000");
  EXPECT_EQ(both->request_id, "a&%b");
  EXPECT_EQ(both->limit, 1000u);
}

TEST(DecisionQuery, RefusesWithOneClearLine) {
  EXPECT_EQ(error_of("requst_id=a"),
            "unknown parameter 'requst_id' (did you mean 'request_id'?); there are request_id and "
            "limit");
  EXPECT_EQ(error_of("limit=0"), "limit: '0' is not a number from 1 to 1000");
  EXPECT_EQ(error_of("limit"), "limit: '' is not a number from 1 to 1000");
  EXPECT_EQ(error_of("limit=1&limit=1"), "limit: is given twice");
  for (const std::string id : {"", "a%20b", "%4", "%00", "%c3%a9"}) {
    std::string expected = "request_id: '";
    expected.append(id).append("' is not 1 to 128 visible characters, percent-encoded");
    EXPECT_EQ(error_of("request_id=" + id), expected);
  }
  EXPECT_NE(error_of("request_id=" + std::string(129, 'x')), "");
}

/// One profile with a filter and two scorers over three endpoints; the first is removed.
struct DecisionStates : ::testing::Test {
  DecisionStates() {
    auto& c = harness.context;
    c.request_id = "r<1>";
    c.path = "/p";
    c.notes = &notes;
    auto outline = std::make_shared<schedule::Outline>();
    outline->handler = "handler";
    outline->producers = {"producer"};
    outline->profiles = {{"default", {"filter"}, {{"s1", 2}, {"s2", 0.5}}, "picker"}};
    pipeline.outline = outline;
    c.results = harness.arena.array<schedule::ProfileResult>(1);
    c.results[0] = {.ran = true, .targets = targets, .scored = scored, .totals = totals};
    c.primary = 0;
    notes.profiles = profiles;
    notes.producers = producers;
    profiles[0] = {.passed = passed, .scores = scores, .seconds = seconds};
  }
  ~DecisionStates() override { harness.context.notes = nullptr; }

  json shown(const schedule::TryOutcome& outcome) {
    schedule::DecisionHistory history(1);
    history.add(harness.context, &pipeline, outcome);
    const auto kept = history.find({.request_id = "r<1>", .limit = 1});
    return json::parse(decision_states(kept, true, harness.clock))["decisions"][0];
  }
  json sent() { return shown({.target = harness.endpoints[2].get()}); }

  Harness harness{3};
  schedule::Pipeline pipeline;
  schedule::DecisionNotes notes;
  std::array<schedule::ProfileNotes, 1> profiles;
  std::array<uint32_t, 1> targets{2};
  std::array<uint32_t, 2> scored{1, 2};
  std::array<double, 2> totals{1.25, 2.5};
  std::array<double, 4> scores{0.5, 1.5, 0.5, 1};
  std::array<uint16_t, 3> passed{0, 1, 1};
  std::array<float, 4> seconds{1e-6F, 2e-6F, 3e-6F, 4e-6F};
  std::array<float, 1> producers{5e-6F};
};

TEST_F(DecisionStates, ShowRawAndWeightedScoresTheBestFirst) {
  const json d = sent();
  EXPECT_EQ(d["requestId"], "r<1>");
  EXPECT_EQ(d["outcome"], "sent");
  EXPECT_EQ(d["endpoint"], "default/e2");
  EXPECT_EQ(d["why"], "it has the highest total, 2.5");
  EXPECT_EQ(d["producers"], json::parse(R"([{"name":"producer","microseconds":5.0}])"));
  const json profile = d["profiles"][0];
  EXPECT_EQ(profile["filters"],
            json::parse(R"([{"name":"filter","microseconds":1.0,"removed":["default/e0"]}])"));
  EXPECT_EQ(profile["endpoints"], json::parse(R"([
    {"endpoint":"default/e2","scores":[1.5,1.0],"weighted":[2.0,0.5],"total":2.5},
    {"endpoint":"default/e1","scores":[0.5,0.5],"weighted":[1.0,0.25],"total":1.25}])"));
  EXPECT_EQ(profile["picker"], json::parse(R"({"name":"picker","microseconds":4.0})"));
  EXPECT_EQ(profile["tie"], nullptr);
}

TEST_F(DecisionStates, ShowTurnsAmongEquals) {
  totals = {2.5, 2.5};
  profiles[0].turn = {.taken = 7, .before = 3};
  const json profile = sent()["profiles"][0];
  EXPECT_EQ(profile["why"], "2 share the highest total, 2.5; its turn among them was longest ago");
  EXPECT_EQ(profile["tie"], json::parse(R"({"equals":2,"picked":2,"turn":7,"turnBefore":3})"));
}

TEST_F(DecisionStates, SayWhyForEveryKindOfPick) {
  totals = {2.5, 2.5};
  EXPECT_EQ(sent()["why"], "picker chose it of 2 with the highest total, 2.5");
  totals = {3, 2.5};
  EXPECT_EQ(sent()["why"], "picker chose it; the highest total is 3");
  auto& result = harness.context.results[0];
  result.scored = std::span(scored).last(1);
  result.totals = std::span(totals).last(1);
  EXPECT_EQ(sent()["why"], "the only endpoint left");
}

TEST_F(DecisionStates, SayWhichFilterLeftNobody) {
  passed = {0, 0, 0};
  harness.context.results[0] = {.ran = true, .failed = true};
  const json d = shown({.status = 429, .code = Code::kResourceExhausted, .error = "none left"});
  EXPECT_EQ(d["outcome"], "refused");
  EXPECT_EQ(d["why"], "none left");
  EXPECT_EQ(d["profiles"][0]["why"], "no endpoint was left after filter");
  EXPECT_EQ(d["profiles"][0]["filters"][0]["removed"].size(), 3u);
}

TEST_F(DecisionStates, TellAnswersAfterTriesAndLeavingFromRefusing) {
  EXPECT_EQ(shown({.status = 503, .error = "x", .decided = false})["outcome"], "answered");
  EXPECT_EQ(shown({.status = 0})["outcome"], "left");
}

TEST_F(DecisionStates, ShowWhyARequestWaited) {
  EXPECT_EQ(sent()["wait"], nullptr);
  notes.wait = {.ahead_in_flow = 3,
                .ahead_in_band = 7,
                .expected_s = 1.25F,
                .saturation = 1.1F,
                .ceiling = 0.8F,
                .why = schedule::WaitNote::Why::kCeiling};
  EXPECT_EQ(sent()["wait"],
            json::parse(R"({"why":"the pool was as full as its band may make it","aheadInFlow":3,
    "aheadInBand":7,"expectedSeconds":1.25,"saturation":1.1,"ceiling":0.8})"));
  notes.wait.expected_s = 0;
  EXPECT_EQ(shown({.status = 429, .error = "x"})["wait"]["expectedSeconds"], nullptr);
}

TEST_F(DecisionStates, TellWhoServedFromWhoWasChosen) {
  const json d = shown({.target = harness.endpoints[1].get(), .decided = false});
  EXPECT_EQ(d["outcome"], "served");
  EXPECT_EQ(d["endpoint"], harness.endpoints[1]->id());
  EXPECT_EQ(d["why"], "it answers instead, as the proxy says");
  EXPECT_FALSE(d.contains("profiles"));
}

TEST_F(DecisionStates, SurviveWhatIsNoNumberAndNoText) {
  scores = {std::nan(""), -1, 0, 0};
  harness.context.path = "/\xff\"<";
  const json d = sent();
  EXPECT_EQ(d["path"], "/\xef\xbf\xbd\"<");
  const json rows = d["profiles"][0]["endpoints"];
  EXPECT_EQ(rows[1]["scores"][0], nullptr);
  EXPECT_EQ(rows[1]["weighted"][0], 0.0);
  EXPECT_EQ(rows[0]["weighted"][0], 0.0);
}

TEST_F(DecisionStates, ShowDecisionsOfNoPipeline) {
  pipeline.outline = nullptr;
  const json d = shown({.status = 503, .error = "no configuration is loaded"});
  EXPECT_TRUE(d["profiles"].empty());
}

}  // namespace
}  // namespace llmd::admin
