#include "picker.h"
#include "score_case.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>

namespace llmd::conformance {
namespace {

constexpr double kTolerance = 1e-9;
const std::string kData = LLMD_SOURCE_DIR "/tests/data/conformance/";

void expect_equal(const Picker::Answer& ours, const Observed& theirs) {
  ASSERT_EQ(ours.error, "");
  ASSERT_EQ(ours.scores.size(), theirs.scores.size());
  double best = -INFINITY;
  for (const auto& [name, score] : theirs.scores) {
    ASSERT_TRUE(ours.scores.contains(name)) << name;
    EXPECT_NEAR(ours.scores.at(name), score, kTolerance) << name;
    best = std::max(best, score);
  }
  EXPECT_GE(theirs.scores.at(ours.picked), best - kTolerance) << "picked " << ours.picked;
}

/// Returns how many probes were compared.
size_t run_case(const Case& of, Picker& picker,
                const std::map<std::pair<std::string, size_t>, Observed>& observed) {
  size_t compared = 0;
  for (size_t i = 0; i < of.steps.size(); ++i) {
    const Step& step = of.steps[i];
    SCOPED_TRACE(of.name + " step " + std::to_string(i) + " " + step.op);
    const auto ours = picker.run(step);
    EXPECT_EQ(ours.error, "");
    const auto theirs = observed.find({of.name, i});
    if (step.op != "probe" || theirs == observed.end()) continue;
    expect_equal(ours, theirs->second);
    ++compared;
  }
  return compared;
}

TEST(Scores, EqualTheReferences) {
  const auto cases = read_cases(kData + "scores.json");
  const auto observed = read_observed(kData + "scores.observed.jsonl");
  ASSERT_EQ(cases.size(), 40u);
  size_t run = 0, compared = 0;
  std::string left_out;
  for (const auto& of : cases) {
    Picker picker(of);
    if (!picker.missing().empty()) {
      left_out += "\n  " + of.name + ": no " + picker.missing();
      continue;
    }
    compared += run_case(of, picker, observed);
    ++run;
  }
  std::cout << "cases compared: " << run << " of " << cases.size() << ", probes: " << compared
            << " of " << observed.size() << "; left out:" << (left_out.empty() ? " none" : left_out)
            << "\n";
  EXPECT_EQ(run, 40u);
}

}  // namespace
}  // namespace llmd::conformance
