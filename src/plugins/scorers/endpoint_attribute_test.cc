#include "schedule/testing.h"

#include <gtest/gtest.h>

#include <cmath>

namespace llmd::plugins {
const plugin::Descriptor& endpoint_attribute_scorer();
const plugin::Descriptor& endpoint_attribute_filter();

namespace {

using schedule::Filter;
using schedule::Scorer;
using schedule::testing::Harness;
using Doubles = std::vector<double>;
using Kept = std::vector<uint32_t>;

constexpr double kMissing = NAN;

/// Endpoints whose metrics pages give "gpu" these values.
class AttributeTest : public ::testing::Test {
 protected:
  explicit AttributeTest(size_t count = 4) : harness_(count) {}

  void provide(const Doubles& values) {
    for (size_t i = 0; i < values.size(); ++i) {
      fleet::EngineDetails details;
      if (!std::isnan(values[i])) details.custom.emplace_back("gpu", values[i]);
      details.attributes.emplace_back("gpu/other", 10 * static_cast<double>(i));
      harness_.endpoints[i]->details.store(std::make_shared<const fleet::EngineDetails>(details));
    }
  }
  Doubles scores(const std::string& algorithm, std::string_view producer = "") {
    return harness_.scores(harness_.make<Scorer>(
        endpoint_attribute_scorer(),
        "{attributeKey: gpu, " + std::string(producer) + "algorithm: " + algorithm + "}"));
  }
  Kept kept(const std::string& threshold, std::string_view more = "") {
    return harness_.filtered(harness_.make<Filter>(
        endpoint_attribute_filter(), "{attribute: gpu, " + std::string(more) +
                                         "algorithm: {type: threshold, threshold: " + threshold +
                                         "}}"));
  }

  Harness harness_;
};

TEST_F(AttributeTest, ScoresBetweenTheCandidates) {
  provide({2, 4, 6, kMissing});
  EXPECT_EQ(scores("{type: linear_lower_is_better}"), (Doubles{1, .5, 0, 0}));
  EXPECT_EQ(scores("{type: linear_higher_is_better, normalization: {adaptiveRange: {}}}"),
            (Doubles{0, .5, 1, 0}));
}

TEST_F(AttributeTest, ScoresEqualOnesOne) {
  provide({3, 3, kMissing, 3});
  EXPECT_EQ(scores("{type: linear_lower_is_better}"), (Doubles{1, 1, 0, 1}));
  EXPECT_EQ(scores("{type: linear_higher_is_better}"), (Doubles{1, 1, 0, 1}));
}

TEST_F(AttributeTest, ScoresInAFixedRange) {
  provide({-1, .25, .75, 2});
  constexpr auto kRange = "normalization: {fixedRange: {min: 0, max: 1}}";
  EXPECT_EQ(scores("{type: linear_lower_is_better, " + std::string(kRange) + "}"),
            (Doubles{1, .75, .25, 0}));
  EXPECT_EQ(scores("{type: linear_higher_is_better, " + std::string(kRange) + "}"),
            (Doubles{0, .25, .75, 1}));
}

TEST_F(AttributeTest, ScoresNothingWithoutNumbers) {
  EXPECT_EQ(scores("{type: linear_lower_is_better}"), Doubles(4, 0));
}

TEST_F(AttributeTest, ReadsTheNamedProducer) {
  provide({1, 1, 1, 1});
  EXPECT_EQ(
      scores("{type: linear_higher_is_better, normalization: {fixedRange: {min: 0, max: 30}}}",
             "producer: other, "),
      (Doubles{0, 1.0 / 3, 2.0 / 3, 1}));
}

TEST_F(AttributeTest, FiltersByThreshold) {
  provide({1, 2, 3, kMissing});
  EXPECT_EQ(kept("{operator: LessThan, value: 2}"), (Kept{0, 3}));
  EXPECT_EQ(kept("{operator: LessThanOrEqual, value: 2}"), (Kept{0, 1, 3}));
  EXPECT_EQ(kept("{operator: GreaterThan, value: 2}"), (Kept{2, 3}));
  EXPECT_EQ(kept("{operator: GreaterThanOrEqual, value: 2}"), (Kept{1, 2, 3}));
  EXPECT_EQ(kept("{operator: Equal, value: 2}"), (Kept{1, 3}));
  EXPECT_EQ(kept("{operator: NotEqual, value: 2}"), (Kept{0, 2, 3}));
  EXPECT_EQ(kept("{operator: NotEqual, value: 2}", "onMissing: Fail, "), (Kept{0, 2}));
}

TEST_F(AttributeTest, FallsBackToAllWhenAsked) {
  provide({1, 2, 3, 4});
  EXPECT_EQ(kept("{operator: LessThan, value: 0}"), Kept{});
  EXPECT_EQ(kept("{operator: LessThan, value: 0}", "fallbackOnEmpty: true, ").size(), 4u);
}

TEST_F(AttributeTest, RefusesParametersWithoutMeaning) {
  const auto scorer = [&](const std::string& parameters) {
    return harness_.try_make(endpoint_attribute_scorer(), parameters).has_value();
  };
  constexpr auto kAlgorithm = "algorithm: {type: linear_lower_is_better";
  EXPECT_TRUE(scorer(std::string("{attributeKey: a/b, producer: '', ") + kAlgorithm + "}}"));
  EXPECT_FALSE(scorer(std::string("{attributeKey: a/b, ") + kAlgorithm + "}}"));
  EXPECT_FALSE(scorer(std::string("{") + kAlgorithm + "}}"));
  EXPECT_FALSE(scorer("{attributeKey: a}"));
  EXPECT_FALSE(scorer("{attributeKey: a, algorithm: {type: linear}}"));
  for (const auto* range : {"{fixedRange: {min: 1, max: 1}}", "{fixedRange: {min: 1}}",
                            "{fixedRange: {min: 0, max: 1}, adaptiveRange: {}}"})
    EXPECT_FALSE(
        scorer(std::string("{attributeKey: a, ") + kAlgorithm + ", normalization: " + range + "}}"))
        << range;
  const auto filter = [&](const std::string& parameters) {
    return harness_.try_make(endpoint_attribute_filter(), parameters).has_value();
  };
  EXPECT_FALSE(filter("{attribute: a}"));
  EXPECT_FALSE(filter("{attribute: a, algorithm: {type: threshold}}"));
  EXPECT_FALSE(
      filter("{attribute: a, algorithm: {type: threshold, threshold: {operator: Equal}}}"));
  EXPECT_FALSE(
      filter("{attribute: a, algorithm: {type: threshold, threshold: {operator: '=', value: 1}}}"));
  EXPECT_FALSE(
      filter("{attribute: a, onMissing: Drop, algorithm: {type: threshold, threshold: "
             "{operator: Equal, value: 1}}}"));
}

}  // namespace
}  // namespace llmd::plugins
