#include "request/objects.h"

#include <gtest/gtest.h>

#include <map>

namespace llmd::request {
namespace {

ModelRewrite rewrite(std::string name, std::string created, std::vector<RewriteRule> rules) {
  return {std::move(name), std::move(created), std::move(rules)};
}

TEST(Objects, UnknownObjectivesHavePriorityZero) {
  const Objects objects({{"batch", -5}, {"chat", 10}, {"batch", 3}}, {});
  EXPECT_EQ(objects.priority("batch"), -5);
  EXPECT_EQ(objects.priority("chat"), 10);
  EXPECT_EQ(objects.priority(""), 0);
  EXPECT_EQ(objects.priority("other"), 0);
}

TEST(Objects, ExactRulesBeatGenericOnesAndOldObjectsNewOnes) {
  const Objects objects(
      {},
      {
          rewrite("z", "2026-01-01T00:00:00Z", {{.any_model = true, .targets = {{"any-z", {}}}}}),
          rewrite("new", "2026-03-01T00:00:00Z", {{.models = {"m"}, .targets = {{"new", {}}}}}),
          rewrite("b", "2026-02-01T00:00:00Z", {{.models = {"m"}, .targets = {{"b", {}}}}}),
          rewrite("a", "2026-02-01T00:00:00Z",
                  {{.any_model = true, .targets = {{"any-a", {}}}},
                   {.models = {"k", "m"}, .targets = {{"a", {}}}},
                   {.models = {"m"}, .targets = {{"later", {}}}}}),
      });
  Rng rng(1);
  EXPECT_EQ(choose_target(*objects.rule_for("m").rule, rng), "a");
  EXPECT_EQ(objects.rule_for("m").rewrite, "a");
  EXPECT_EQ(choose_target(*objects.rule_for("k").rule, rng), "a");
  EXPECT_EQ(choose_target(*objects.rule_for("").rule, rng), "any-z");
  EXPECT_EQ(Objects().rule_for("m").rule, nullptr);
}

TEST(Objects, ARuleThatMatchesNothingIsNeverChosen) {
  const Objects objects({}, {rewrite("a", "", {{.targets = {{"x", {}}}}})});
  EXPECT_EQ(objects.rule_for("m").rule, nullptr);
}

TEST(ChooseTarget, FollowsWeights) {
  Rng rng(7);
  std::map<std::string_view, int> seen;
  const RewriteRule weighted{.targets = {{"a", 70}, {"b", 30}, {"never", {}}}};
  for (int i = 0; i < 10'000; ++i) ++seen[choose_target(weighted, rng)];
  EXPECT_NEAR(seen["a"], 7000, 200);
  EXPECT_NEAR(seen["b"], 3000, 200);
  EXPECT_EQ(seen["never"], 0);

  seen.clear();
  const RewriteRule plain{.targets = {{"a", {}}, {"b", {}}}};
  for (int i = 0; i < 10'000; ++i) ++seen[choose_target(plain, rng)];
  EXPECT_NEAR(seen["a"], 5000, 200);
  EXPECT_EQ(choose_target({}, rng), "");
}

}  // namespace
}  // namespace llmd::request
