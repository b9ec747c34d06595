#include "commands.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace llmd {
namespace {

struct Outcome {
  int code;
  std::string out, err;
};

Outcome check(std::vector<std::string> args) {
  args.insert(args.begin(), "check");
  std::vector<char*> argv;
  for (auto& arg : args) argv.push_back(arg.data());
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int code = run_check(static_cast<int>(argv.size()), argv.data());
  return {code, testing::internal::GetCapturedStdout(), testing::internal::GetCapturedStderr()};
}

TEST(CheckCommand, RefusesWithOneLineAndCodeTwo) {
  const std::string head = "apiVersion: llm-d.ai/v1\nkind: EndpointPickerConfig\n";
  const struct {
    std::vector<std::string> args;
    std::string err;
  } kCases[] = {
      {{"--config-text", head + "plugin: []"},
       "llmd check: --config-text:3: unknown field 'plugin' (did you mean 'plugins'?)\n"},
      {{"--config-file", "/nonexistent.yaml"},
       "llmd check: /nonexistent.yaml: cannot be read: No such file or directory\n"},
      {{"--config-file", "a", "--config-text", "b"},
       "llmd check: --config-file and --config-text exclude each other\n"},
      {{"--refresh-metrics-interval", "soon"}, "llmd check: --refresh-metrics-interval: "},
  };
  for (const auto& c : kCases) {
    const Outcome outcome = check(c.args);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_EQ(outcome.out, "");
    EXPECT_TRUE(outcome.err.starts_with(c.err)) << outcome.err;
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
  }
}

TEST(CheckCommand, NamesTheNearestFlag) {
  const struct {
    std::vector<std::string> args;
    std::string err;
  } kCases[] = {
      {{"--config-fil", "x"}, "unknown flag '--config-fil' (did you mean '--config-file'?)"},
      {{"--config-fil=x"}, "unknown flag '--config-fil' (did you mean '--config-file'?)"},
      {{"word", "--formt", "yaml"}, "unknown flag '--formt' (did you mean '--format'?)"},
      {{"--nothing-like-it"}, "unknown flag '--nothing-like-it'"},
      {{"word"}, "unexpected argument 'word'"},
  };
  for (const auto& c : kCases) {
    const Outcome outcome = check(c.args);
    EXPECT_EQ(outcome.code, 2);
    EXPECT_EQ(outcome.err, "llmd check: " + c.err + "\n");
  }
}

TEST(CheckCommand, PrintsTheReference) {
  const Outcome outcome = check({"--plugins-reference"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_TRUE(outcome.out.starts_with("# Plugins\n"));
  EXPECT_NE(outcome.out.find("### metrics-data-source\n"), std::string::npos);
}

}  // namespace
}  // namespace llmd
