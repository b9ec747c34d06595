#include "schedule/testing.h"

#include <gtest/gtest.h>

namespace llmd::plugins {
const plugin::Descriptor& label_selector_filter();
const plugin::Descriptor& by_label_selector();
const plugin::Descriptor& by_label();

namespace {

using schedule::Filter;
using schedule::testing::Harness;
using schedule::testing::Labels;
using Kept = std::vector<uint32_t>;

/// Endpoint 0: tier=gold, zone=a; 1: tier=iron; 2: no labels; 3: tier=gold, zone="".
Kept kept(const plugin::Descriptor& descriptor, std::string_view parameters) {
  Harness harness({Labels{{"tier", "gold"}, {"zone", "a"}}, Labels{{"tier", "iron"}}, Labels{},
                   Labels{{"tier", "gold"}, {"zone", ""}}});
  return harness.filtered(harness.make<Filter>(descriptor, parameters));
}

TEST(LabelSelectorFilter, SelectsAsKubernetesDoes) {
  const struct {
    std::string_view parameters;
    Kept kept;
  } kCases[] = {
      {"", {0, 1, 2, 3}},
      {"{matchLabels: {tier: gold}}", {0, 3}},
      {"{matchLabels: {tier: gold, zone: a}}", {0}},
      {"{matchLabels: {tier: silver}}", {}},
      {"{matchExpressions: [{key: tier, operator: In, values: [gold, iron]}]}", {0, 1, 3}},
      {"{matchExpressions: [{key: tier, operator: NotIn, values: [gold]}]}", {1, 2}},
      {"{matchExpressions: [{key: zone, operator: Exists}]}", {0, 3}},
      {"{matchExpressions: [{key: zone, operator: DoesNotExist}]}", {1, 2}},
      {"{matchLabels: {tier: gold}, matchExpressions: [{key: zone, operator: In, values: ['']}]}",
       {3}},
  };
  for (const auto& c : kCases) {
    EXPECT_EQ(kept(label_selector_filter(), c.parameters), c.kept) << c.parameters;
    EXPECT_EQ(kept(by_label_selector(), c.parameters), c.kept) << c.parameters;
  }
}

TEST(LabelSelectorFilter, RefusesExpressionsWithoutMeaning) {
  Harness harness(1);
  for (const auto* expression :
       {"{operator: Exists}", "{key: a}", "{key: a, operator: in, values: [b]}",
        "{key: a, operator: In}", "{key: a, operator: Exists, values: [b]}"})
    EXPECT_FALSE(harness.try_make(label_selector_filter(),
                                  "{matchExpressions: [" + std::string(expression) + "]}"))
        << expression;
}

TEST(ByLabel, KeepsValuesAndUnlabelledOnes) {
  EXPECT_EQ(kept(by_label(), "{label: tier, validValues: [gold]}"), (Kept{0, 3}));
  EXPECT_EQ(kept(by_label(), "{label: tier, validValues: [gold], allowsNoLabel: true}"),
            (Kept{0, 2, 3}));
  EXPECT_EQ(kept(by_label(), "{label: zone, allowsNoLabel: true}"), (Kept{1, 2}));
}

TEST(ByLabel, RefusesToKeepNothing) {
  Harness harness(1);
  EXPECT_FALSE(harness.try_make(by_label(), "{validValues: [a]}"));
  EXPECT_FALSE(harness.try_make(by_label(), "{label: a}"));
}

TEST(LabelFilters, OldOnesNameTheirSuccessor) {
  EXPECT_EQ(by_label().replaced_by, "label-selector-filter");
  EXPECT_EQ(by_label_selector().replaced_by, "label-selector-filter");
}

}  // namespace
}  // namespace llmd::plugins
