#include "explain_text.h"

#include <gtest/gtest.h>

namespace llmd {
namespace {

constexpr std::string_view kFacts = R"(
  "requestId":"r-1","time":"2026-11-30T01:02:03.123456789Z","path":"/v1/completions","priority":0,
  "bodyBytes":120,"microseconds":{"parse":1.5,"schedule":20000},)";

std::string decisions(std::string_view fields) {
  return R"({"decisions":[{)" + std::string(kFacts) + std::string(fields) + "}]}";
}

TEST(ExplainText, ListsDecisions) {
  const auto text =
      explain_text(decisions(R"("outcome":"sent","try":2,"after":"connect","model":"m",
    "targetModel":"m-v2","candidates":3,"endpoint":"default/a","address":"10.0.0.1:80")"));
  EXPECT_EQ(
      *text,
      "TIME                     REQUEST  MODEL      TRY  CANDIDATES  WAITED  DECIDED IN  WENT TO\n"
      "2026-11-30T01:02:03.123  r-1      m -> m-v2    2           3       -     20.0 ms  "
      "default/a\n");
}

TEST(ExplainText, ListsWaitingApartFromDeciding) {
  const auto text =
      explain_text(R"({"decisions":[{"requestId":"r-1","time":"2026-11-30T01:02:03.123Z",
    "outcome":"sent","try":1,"model":"m","targetModel":"m","candidates":3,"endpoint":"default/a",
    "wait":{"why":"it was full"},"microseconds":{"parse":1.5,"admit":2500000,"schedule":20000}}]})");
  EXPECT_NE(text->find("CANDIDATES  WAITED  DECIDED IN"), std::string::npos) << *text;
  EXPECT_NE(text->find("   2.5 s     20.0 ms  default/a"), std::string::npos) << *text;
}

TEST(ExplainText, ShowsWhoWasRemovedAndHowTheRestScored) {
  const auto text = explain_text(decisions(R"("outcome":"sent","try":1,"after":"","model":"m",
    "targetModel":"m","candidates":3,"endpoint":"default/b","address":"10.0.0.2:80",
    "why":"because","cut":false,"producers":[{"name":"p","microseconds":null}],
    "endpoints":[{"endpoint":"default/a","waiting":1,"running":2,"kvUsage":0.5},
                 {"endpoint":"default/b","waiting":0,"running":12,"kvUsage":0.25}],
    "profiles":[{"name":"default","primary":true,"ran":true,"why":"because",
      "filters":[{"name":"f","microseconds":1,"removed":["default/c"]}],
      "scorers":[{"name":"s","weight":2.0,"microseconds":2}],
      "picker":{"name":"max","microseconds":3},"picked":["default/b"],
      "endpoints":[{"endpoint":"default/b","scores":[1.5],"weighted":[2.0],"total":2.0},
                   {"endpoint":"default/a","scores":[null],"weighted":[0.0],"total":0.0}],
      "tie":{"equals":2,"picked":1,"turn":7,"turnBefore":5}},
     {"name":"other","primary":false,"ran":false}])"));
  EXPECT_EQ(*text, R"(request r-1
/v1/completions  model m  120 bytes  priority 0

2026-11-30T01:02:03.123  try 1: went to default/b (10.0.0.2:80)
  because

  profile default (primary): because
  f removed 1: default/c
  A  s x 2
     ENDPOINT   WAITING  RUNNING   KV      A  weighted  TOTAL
  *  default/b        0       12  25%  1.500     2.000  2.000
     default/a        1        2  50%    NaN     0.000  0.000
  tie of 2: took number 1 of them, turn 7 of the rotation, its last was 5
  steps      f 1.0 us, s 2.0 us, max 3.0 us

  stages     parse 1.5 us, schedule 20.0 ms
  producers  p failed
)");
}

TEST(ExplainText, ShowsWhoServedInstead) {
  const auto text = explain_text(decisions(R"("outcome":"served","try":1,"after":"","model":"m",
    "targetModel":"m","candidates":0,"endpoint":"default/b","address":"10.0.0.2:80",
    "why":"it answers instead, as the proxy says","cut":false)"));
  EXPECT_NE(text->find("try 1: was served by default/b (10.0.0.2:80)\n  it answers instead"),
            std::string::npos)
      << *text;
}

TEST(ExplainText, ShowsRefusals) {
  const auto text = explain_text(decisions(R"("outcome":"refused","try":1,"after":"","model":"m",
    "targetModel":"m","candidates":0,"endpoint":null,"address":null,"status":429,
    "code":"ResourceExhausted","error":"saturated","dropReason":"rejected-saturated","why":"saturated",
    "cut":false)"));
  EXPECT_NE(text->find("try 1: refused\n  429 ResourceExhausted saturated\n  rejected-saturated\n"),
            std::string::npos)
      << *text;
}

TEST(ExplainText, SaysWhyARequestWaited) {
  const std::string facts = R"("outcome":"left","try":1,"after":"","model":"m","targetModel":"m",
    "candidates":0,"endpoint":null,"address":null,"status":0,"code":"","error":"","dropReason":"",
    "why":"","cut":false,"wait":{"why":"it was full","aheadInFlow":2,"aheadInBand":7,
    "saturation":1.1,"ceiling":0.8,"expectedSeconds":)";
  std::string text = *explain_text(decisions(facts + "1.5}"));
  EXPECT_NE(text.find("  waited 0.0 us: it was full (saturation 1.1, its ceiling 0.8)\n"
                      "  when it came: 2 ahead in its flow, 7 in its band; expected wait 1.5 s\n"),
            std::string::npos)
      << text;
  text = *explain_text(decisions(facts + "null}"));
  EXPECT_NE(text.find("expected wait not known\n"), std::string::npos) << text;
}

TEST(ExplainText, KeepsControlCharactersFromTheTerminal) {
  const auto text =
      explain_text(decisions(R"("outcome":"sent","try":1,"after":"","model":"\u001b[2Jx",
    "targetModel":"","candidates":1,"endpoint":"e","address":"a")"));
  EXPECT_EQ(text->find('\x1b'), std::string::npos);
  EXPECT_NE(text->find("?[2Jx"), std::string::npos);
}

TEST(ExplainText, RefusesOtherDocuments) {
  for (const auto* other : {"", "{}", "[]", "<html>", R"({"decisions":[{}]})"})
    EXPECT_FALSE(explain_text(other)) << other;
  EXPECT_EQ(*explain_text(R"({"decisions":[]})"), "no request has come yet\n");
}

}  // namespace
}  // namespace llmd
