#include "schedule/testing.h"

#include <gtest/gtest.h>

#include <limits>

namespace llmd::plugins {
const plugin::Descriptor& request_attribute_reporter();

namespace {

using schedule::testing::Harness;

constexpr request::Usage kUsage = {.prompt_tokens = 7,
                                   .completion_tokens = 10,
                                   .total_tokens = 17,
                                   .cached_tokens = 5,
                                   .present = true};

std::string parameters(std::string_view expression, std::string_view condition = "") {
  std::string out = "{attributes: [{key: {name: cost}, expression: \"";
  out.append(expression).append("\"");
  if (!condition.empty()) out.append(", condition: \"").append(condition).append("\"");
  return out + "}]}";
}

/// What is reported; NaN: nothing.
double reported(std::string_view expression, std::string_view condition = "",
                const request::Usage& usage = kUsage) {
  Harness harness(1);
  harness.make<schedule::Reporter>(request_attribute_reporter(), parameters(expression, condition))
      .report(harness.context, usage);
  const auto reports = harness.context.reports.view();
  if (reports.empty()) return std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].space, "envoy.lb");
  EXPECT_EQ(reports[0].name, "cost");
  return reports[0].value;
}
bool silent(double value) {
  return value != value;
}

TEST(RequestAttributeReporter, ReportsWholeNumbers) {
  EXPECT_EQ(reported("usage.prompt_tokens + usage.completion_tokens * 3.0"), 37);
  EXPECT_EQ(reported("usage.total_tokens / 4.0"), 4);
  EXPECT_EQ(reported("usage.prompt_tokens - usage.prompt_tokens_details.cached_tokens"), 2);
  EXPECT_EQ(reported("int(usage.total_tokens) * 2"), 34);
  EXPECT_EQ(reported("-usage.total_tokens"), -17);
}

TEST(RequestAttributeReporter, KeepsQuietAboutNothing) {
  EXPECT_TRUE(silent(reported("0")));
  EXPECT_TRUE(silent(reported("-1")));
  EXPECT_TRUE(silent(reported("0.5")));
  EXPECT_TRUE(silent(reported("'text'")));
  EXPECT_TRUE(silent(reported("usage.prompt_tokens / 0.0"))) << "infinite";
  EXPECT_TRUE(silent(reported("usage.nothing")));
  request::Usage uncached = kUsage;
  uncached.cached_tokens.reset();
  EXPECT_TRUE(silent(reported("usage.prompt_tokens_details.cached_tokens", "", uncached)));
}

TEST(RequestAttributeReporter, AsksItsCondition) {
  EXPECT_EQ(reported("usage.total_tokens", "usage.completion_tokens > 9.0"), 17);
  EXPECT_TRUE(silent(reported("usage.total_tokens", "usage.completion_tokens > 10.0")));
  EXPECT_TRUE(silent(reported("usage.total_tokens", "usage.nothing")));
  EXPECT_TRUE(silent(reported("usage.total_tokens", "usage.total_tokens"))) << "not a bool";
}

TEST(RequestAttributeReporter, RefusesWhatItCannotReport) {
  const auto error = [](std::string_view yaml) {
    const auto made = Harness(1).try_make(request_attribute_reporter(), yaml);
    return made ? "no error" : made.error().message;
  };
  const std::string plugin = "plugin 'request-attribute-reporter' (request-attribute-reporter): ";
  EXPECT_EQ(error(""), plugin + "parameter 'attributes' must have exactly one element, not 0");
  EXPECT_EQ(error("{attributes: [{expression: '1'}]}"),
            plugin + "parameter 'attributes[0].key.name' is missing");
  EXPECT_EQ(error("{attributes: [{key: {name: a}}]}"),
            plugin + "parameter 'attributes[0].expression' is missing");
  EXPECT_EQ(error(parameters("usge.prompt_tokens")),
            plugin +
                "parameter 'attributes[0].expression': at character 1: there is no variable "
                "'usge' (did you mean 'usage'?)");
  EXPECT_EQ(error(parameters("1", "1 +")),
            plugin + "parameter 'attributes[0].condition': at character 4: a value is expected");
}

}  // namespace
}  // namespace llmd::plugins
