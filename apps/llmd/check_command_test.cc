#include "commands.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
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
  argv.reserve(args.size());
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

TEST(CheckCommand, ChecksEndpointsAndObjects) {
  const auto dir = std::filesystem::path(testing::TempDir()) / "check-command";
  std::filesystem::create_directories(dir / "objects");
  const auto write = [&](const char* name, const std::string& text) {
    std::ofstream(dir / name) << text;
  };
  const std::string endpoints = (dir / "endpoints.yaml").string();
  const std::string objects = (dir / "objects").string();
  const auto outcome = [&] {
    return check({"--endpoints-file", endpoints, "--objects-dir", objects});
  };
  const std::string good = "endpoints:\n- {name: a, address: 127.0.0.1, port: '8000'}\n";
  const std::string objective =
      "apiVersion: llm-d.ai/v1alpha2\nkind: InferenceObjective\nmetadata: {name: o}\n";

  write("endpoints.yaml", good + "colour: red\n");
  write("objects/a.yaml", objective + "spec: {priority: 3}\n");
  const Outcome accepted = outcome();
  EXPECT_EQ(accepted.code, 0) << accepted.err;
  EXPECT_TRUE(accepted.out.ends_with("endpoints " + endpoints + "\n  1\n  warning: " + endpoints +
                                     ":3: unknown key 'colour' is ignored\nobjects " + objects +
                                     "\n  1 objectives, 0 rewrites of pool epp\n"))
      << accepted.out;

  write("objects/a.yaml", objective + "spec: {priority: high}\n");
  EXPECT_EQ(outcome().code, 2);
  EXPECT_TRUE(outcome().err.starts_with("llmd check: " + objects + "/a.yaml:4: ")) << outcome().err;

  write("endpoints.yaml", good +
                              "- {name: b, address: here, port: '1'}\n"
                              "- {name: c, address: 127.0.0.1, port: '99999'}\n");
  EXPECT_EQ(outcome().code, 2);
  EXPECT_EQ(std::ranges::count(outcome().err, '\n'), 2) << "every bad entry: " << outcome().err;
  EXPECT_NE(outcome().err.find(endpoints + ":4: "), std::string::npos) << outcome().err;
  std::filesystem::remove_all(dir);
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
