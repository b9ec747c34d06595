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

/// A text as the tokens that the recording's tokenizer made of it: its code points, which are all
/// of ASCII. Tokens stay what they are.
nlohmann::json tokens_of(const nlohmann::json& text) {
  if (!text.is_string()) return text;
  const auto& letters = text.get_ref<const std::string&>();
  return std::vector<int>(letters.begin(), letters.end());
}

/// The request of the tokens of its prompts.
void tokenize(Step& step) {
  auto body = nlohmann::json::parse(step.body);
  auto& prompt = body["prompt"];
  if (body.contains("messages")) prompt = body["messages"].at(0).at("content");
  if (prompt.is_array())
    for (auto& one : prompt) one = tokens_of(one);
  prompt = tokens_of(prompt);
  body.erase("messages");
  step.path = "/v1/completions";
  step.body = body.dump();
}

void replace(std::string& text, std::string_view what, std::string_view with) {
  const auto at = text.find(what);
  ASSERT_NE(at, text.npos) << what;
  text.replace(at, what.size(), with);
}

/// Cases with KV events, without what they had from outside: the tokenizer, which their first line
/// configures, and the engines' socket.
std::vector<Case> with_tokens(std::vector<Case> cases) {
  std::erase_if(cases, &Case::wired);
  for (auto& of : cases) {
    of.plugins.replace(0, of.plugins.find('\n'), "- {type: token-producer}");
    replace(of.plugins, "tcp://127.0.0.1:5999", "");
    for (auto& step : of.steps)
      if (step.op == "probe") tokenize(step);
  }
  return cases;
}

/// Runs these cases of a recording; returns how many probes were compared.
size_t run_recording(const std::vector<Case>& cases, const std::string& answers) {
  auto observed = read_observed(kData + answers);
  std::erase_if(observed, [&](const auto& of) {
    return std::ranges::find(cases, std::get<0>(of.first), &Case::name) == cases.end();
  });
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
  EXPECT_EQ(run_recording(read_cases(kData + "scores.json.gz"), "scores.observed.jsonl"), 164u);
}

TEST(Scores, EqualTheReferencesInManyMoreCases) {
  EXPECT_GE(run_recording(read_cases(kData + "probes.json.gz"), "probes.observed.jsonl.gz"), 3000u);
}

TEST(Scores, EqualTheReferencesWithKvEvents) {
  EXPECT_EQ(run_recording(with_tokens(read_cases(kData + "kv-scores.json.gz")),
                          "kv-scores.observed.jsonl.gz"),
            184u);
}

TEST(Scores, EqualTheReferencesInManyMoreCasesWithKvEvents) {
  EXPECT_GE(run_recording(with_tokens(read_cases(kData + "kv-probes.json.gz")),
                          "kv-probes.observed.jsonl.gz"),
            500u);
}

}  // namespace
}  // namespace llmd::conformance
