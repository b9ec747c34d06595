#include "idle_fleet.h"

#include <gtest/gtest.h>

namespace llmd::regress {
namespace {

/// llm-d-router#1109, aibrix#2476: bodies were decoded and written again, which cost cores and
/// changed them. What a long prompt costs is measured by scripts/bars.py.

const std::string kOdd =
    R"({ "prompt":"a<b \u00e9 \ud83d\ude00","model":"a","seed":9007199254740993,"t":1.0,)"
    R"("model":"m" ,"x":{"z":1,"a":2,"z":3},"e":1e400})";

TEST(Case32, AnUnchangedBodyKeepsEveryByte) {
  conformance::Picker picker(idle_fleet(1));
  auto step = completion("probe", "\"p\"");
  step.body = kOdd;
  const auto answer = picker.run(step);
  EXPECT_EQ(answer.error, "");
  EXPECT_EQ(answer.sent, kOdd);
}

TEST(Case32, ANewModelChangesNothingElse) {
  conformance::Picker picker(idle_fleet(1));
  auto step = completion("probe", "\"p\"");
  step.body = kOdd;
  step.headers = {{"x-llm-d-model-name-rewrite", "other"}};
  auto expected = kOdd;
  expected.replace(expected.rfind("\"m\""), 3, "\"other\"");
  EXPECT_EQ(picker.run(step).sent, expected);
}

}  // namespace
}  // namespace llmd::regress
