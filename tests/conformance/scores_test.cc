#include "picker.h"
#include "score_case.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <sstream>

namespace llmd::conformance {
namespace {

constexpr double kTolerance = 1e-9;
const std::string kData = LLMD_SOURCE_DIR "/tests/data/conformance/";

/// The scores of the targets in their order are the best ones.
void expect_best(const std::string& picked, const std::map<std::string, double>& scores) {
  std::vector<double> best;
  for (const auto& [name, score] : scores) best.push_back(score);
  std::ranges::sort(best, std::greater());
  std::istringstream names(picked);
  size_t place = 0;
  for (std::string name; std::getline(names, name, ','); ++place)
    EXPECT_NEAR(scores.at(name.substr(0, name.find(':'))), best.at(place), kTolerance)
        << "picked " << picked;
}

/// The text of a refusal as far as it is a contract.
std::string contract_of(const std::string& error) {
  const std::string mark = "failed to find target endpoint: ";
  const auto at = error.find(mark);
  return at == std::string::npos ? error : error.substr(0, at + mark.size());
}

void expect_equal(const Answer& ours, const Answer& theirs) {
  EXPECT_EQ(ours.status, theirs.status);
  EXPECT_EQ(contract_of(ours.error), contract_of(theirs.error));
  EXPECT_EQ(ours.reason, theirs.reason);
  EXPECT_EQ(ours.headers, theirs.headers);
  if (theirs.scores.empty()) return;  // refused, or lost by a handler that changes ports
  ASSERT_EQ(ours.scores.size(), theirs.scores.size());
  for (const auto& [name, score] : theirs.scores) {
    ASSERT_TRUE(ours.scores.contains(name)) << name;
    EXPECT_NEAR(ours.scores.at(name), score, kTolerance) << name;
  }
  EXPECT_EQ(std::ranges::count(ours.picked, ','), std::ranges::count(theirs.picked, ','));
  expect_best(ours.picked, theirs.scores);
}

/// The prompt as the tokens that the recording's tokenizer made of it: its code points, which are
/// all of ASCII.
void tokenize(Step& step) {
  auto body = nlohmann::json::parse(step.body);
  auto& prompt = body["prompt"];
  if (body.contains("messages")) prompt = body["messages"].at(0).at("content");
  if (prompt.is_array()) return;
  const auto text = prompt.get<std::string>();
  prompt = std::vector<int>(text.begin(), text.end());
  body.erase("messages");
  step.path = "/v1/completions";
  step.body = body.dump();
}

void replace(std::string& text, std::string_view what, std::string_view with) {
  const auto at = text.find(what);
  ASSERT_NE(at, text.npos) << what;
  text.replace(at, what.size(), with);
}

/// Cases with KV events, with what they need from outside: the tokenizer and the engines' socket.
std::vector<Case> with_tokens(std::vector<Case> cases) {
  for (auto& of : cases) {
    replace(of.plugins, R"(, parameters: {modelName: m, vllm: {url: "http://127.0.1.10:9100"}})",
            "");
    replace(of.plugins, "tcp://127.0.0.1:5999", "");
    for (auto& step : of.steps)
      if (step.op == "probe") tokenize(step);
  }
  return cases;
}

/// Runs every case of a recording; returns how many probes were compared.
size_t run_recording(const std::vector<Case>& cases, const std::string& answers) {
  const auto observed = read_observed(kData + answers);
  size_t compared = 0;
  for (const auto& of : cases) {
    Picker picker(of);
    for (size_t i = 0; i < of.steps.size(); ++i) {
      const Step& step = of.steps[i];
      SCOPED_TRACE(of.name + " step " + std::to_string(i) + " " + step.op);
      const auto ours =
          step.op == "together" ? picker.run_together(step) : std::vector{picker.run(step)};
      for (size_t k = 0; k < ours.size(); ++k) {
        const auto theirs = observed.find({of.name, i, k});
        if (theirs == observed.end()) {
          if (step.op != "close") EXPECT_EQ(ours[k].error, "");
          continue;
        }
        expect_equal(ours[k], theirs->second);
        ++compared;
      }
    }
  }
  EXPECT_EQ(compared, observed.size());
  return compared;
}

TEST(Scores, EqualTheReferences) {
  EXPECT_EQ(run_recording(read_cases(kData + "scores.json"), "scores.observed.jsonl"), 164u);
}

TEST(Scores, EqualTheReferencesInManyMoreCases) {
  EXPECT_GE(run_recording(read_cases(kData + "probes.json.gz"), "probes.observed.jsonl.gz"), 3000u);
}

TEST(Scores, EqualTheReferencesWithKvEvents) {
  EXPECT_EQ(run_recording(with_tokens(read_cases(kData + "kv-scores.json.gz")),
                          "kv-scores.observed.jsonl.gz"),
            184u);
}

}  // namespace
}  // namespace llmd::conformance
