#include "config/objects_dir.h"

#include "base/rng.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace llmd::config {
namespace {

constexpr std::string_view kBoth = R"(# both kinds, as a cluster prints them
apiVersion: llm-d.ai/v1alpha2
kind: InferenceObjective
metadata:
  name: batch
  namespace: default
  uid: 5f
spec:
  priority: -10
  poolRef: {name: epp, group: inference.networking.k8s.io}
status: {conditions: []}
---
spec:
  rules:
  - matches: [{model: {type: Exact, value: food}}, {model: {value: drink}}]
    targets: [{modelRewrite: food-v1, weight: 70}, {modelRewrite: food-v2, weight: 30}]
  - targets: [{modelRewrite: base}]
metadata: {name: canary, creationTimestamp: 2026-01-02T03:04:05Z}
kind: InferenceModelRewrite
apiVersion: inference.networking.x-k8s.io/v1alpha2
---
)";

TEST(ParseObjects, ReadsBothKinds) {
  ObjectsRead out;
  const auto read = parse_objects(kBoth, "o.yaml", "epp", out);
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(out.objectives.size(), 1u);
  EXPECT_EQ(out.objectives[0].name, "batch");
  EXPECT_EQ(out.objectives[0].priority, -10);
  ASSERT_EQ(out.rewrites.size(), 1u);
  const auto& rewrite = out.rewrites[0];
  EXPECT_EQ(rewrite.name, "canary");
  EXPECT_EQ(rewrite.created, "2026-01-02T03:04:05Z");
  ASSERT_EQ(rewrite.rules.size(), 2u);
  EXPECT_EQ(rewrite.rules[0].models, (std::vector<std::string>{"food", "drink"}));
  EXPECT_FALSE(rewrite.rules[0].any_model);
  EXPECT_EQ(rewrite.rules[0].targets[1].weight, 30);
  EXPECT_TRUE(rewrite.rules[1].any_model);
  EXPECT_EQ(rewrite.rules[1].targets[0].weight, std::nullopt);
  EXPECT_TRUE(out.warnings.empty());
}

TEST(ParseObjects, LeavesOutObjectsOfOtherPools) {
  ObjectsRead out;
  ASSERT_TRUE(parse_objects(kBoth, "o.yaml", "mine", out));
  EXPECT_TRUE(out.objectives.empty());
  EXPECT_EQ(out.rewrites.size(), 1u) << "one without a poolRef is for every pool";
  EXPECT_EQ(out.warnings, (std::vector<std::string>{
                              "o.yaml:2: InferenceObjective 'batch' is for pool 'epp' and not for "
                              "'mine': left out"}));
}

TEST(ParseObjects, SaysWhatIsWrongAndWhere) {
  const std::string head = "apiVersion: llm-d.ai/v1alpha2\n";
  const std::string rewrite = head + "kind: InferenceModelRewrite\nmetadata: {name: r}\n";
  const struct {
    std::string text, error;
  } kCases[] = {
      {"- x\n", "f:1: must be a map with apiVersion and kind"},
      {"kind: InferenceObjective\n", "f:1: apiVersion: '' is not known"},
      {"apiVersion: llm-d.ai/v1alpha1\n",
       "f:1: apiVersion: 'llm-d.ai/v1alpha1' is not known (did you mean 'llm-d.ai/v1alpha2'?)"},
      {head + "kind: InferenceObjectiv\n",
       "f:2: kind: 'InferenceObjectiv' is not known (did you mean 'InferenceObjective'?)"},
      {head + "kind: InferenceObjective\nspec: {}\n", "f:1: metadata.name: is missing"},
      {head + "kind: InferenceObjective\nmetadata: {name: x}\nspec: {prority: 3}\n",
       "f:4: spec: unknown field 'prority' (did you mean 'priority'?)"},
      {"---\n" + head + "kind: InferenceObjective\nmetadata: {name: x}\n---\n\n" + head +
           "kind: Pod\n",
       "f:8: kind: 'Pod' is not known"},
      {head + "kind: InferenceObjective\nmetadata: {name: x, creationTimestamp: yesterday}\n",
       "f:3: metadata.creationTimestamp: 'yesterday' must have the form 2026-01-02T03:04:05Z"},
      {rewrite + "spec:\n  rules:\n  - targets: []\n",
       "f:6: spec.rules[0].targets: needs one target at least"},
      {rewrite + "spec: {rules: [{targets: [{modelRewrite: a, weight: 0}]}]}\n",
       "f:4: spec.rules[0].targets[0].weight: must be 1 to 1000000"},
      {rewrite + "spec: {rules: [{targets: [{weight: 1}]}]}\n",
       "f:4: spec.rules[0].targets[0].modelRewrite: must not be empty"},
      {rewrite + "spec: {rules: [{matches: [{model: {type: Prefix, value: a}}]}]}\n",
       "f:4: spec.rules[0].matches[0].model.type: must be Exact"},
      {rewrite + "spec: {rules: [{matches: [{model: {}}]}]}\n",
       "f:4: spec.rules[0].matches[0].model.value: must not be empty"},
  };
  for (const auto& c : kCases) {
    ObjectsRead out;
    const auto read = parse_objects(c.text, "f", "epp", out);
    EXPECT_EQ(read ? "" : read.error().message, c.error);
  }
}

class ObjectsDirectoryTest : public testing::Test {
 protected:
  ObjectsDirectoryTest() { std::filesystem::create_directory(path_); }
  ~ObjectsDirectoryTest() override { std::filesystem::remove_all(path_); }

  void write(const std::string& name, const std::string& priority) const {
    std::ofstream(path_ / name) << "apiVersion: llm-d.ai/v1alpha2\nkind: InferenceObjective\n"
                                   "metadata: {name: " +
                                       name + "}\nspec: {priority: " + priority + "}\n";
  }
  bool shows(std::string_view line) { return metrics_.render().find(line) != std::string::npos; }

  const std::filesystem::path path_ =
      std::filesystem::path(testing::TempDir()) / ("objects-" + std::to_string(::getpid()));
  metric::Registry metrics_{1};
  request::ObjectsPtr seen_;
  ObjectsDirectory directory_{path_.string(), "epp", metrics_,
                              [this](request::ObjectsPtr o) { seen_ = std::move(o); }};
};

TEST_F(ObjectsDirectoryTest, FollowsItsFiles) {
  write("a.yaml", "1");
  write("notes.txt", "2");
  ASSERT_TRUE(directory_.start());
  EXPECT_EQ(seen_->priority("a.yaml"), 1);
  EXPECT_EQ(seen_->objectives(), 1u);

  write("b.json", "7");
  directory_.tick();
  EXPECT_EQ(seen_->objectives(), 1u) << "at the second tick that sees it";
  directory_.tick();
  EXPECT_EQ(seen_->priority("b.json"), 7);

  std::filesystem::remove(path_ / "a.yaml");
  directory_.tick();
  directory_.tick();
  EXPECT_EQ(seen_->priority("a.yaml"), 0);
  EXPECT_TRUE(shows("llmd_objects_reloads_total{result=\"success\"} 3"));
}

TEST_F(ObjectsDirectoryTest, ABadFileKeepsTheLastSet) {
  write("a.yaml", "1");
  ASSERT_TRUE(directory_.start());
  write("a.yaml", "high");
  for (int i = 0; i < 4; ++i) directory_.tick();
  EXPECT_EQ(seen_->priority("a.yaml"), 1);
  EXPECT_TRUE(shows("llmd_objects_reloads_total{result=\"failure\"} 1"));

  std::filesystem::remove_all(path_);
  for (int i = 0; i < 4; ++i) directory_.tick();
  EXPECT_EQ(seen_->priority("a.yaml"), 1);
  EXPECT_TRUE(shows("llmd_objects_reloads_total{result=\"failure\"} 2"));
}

TEST_F(ObjectsDirectoryTest, AMissingDirectoryIsAnErrorAtTheStart) {
  std::filesystem::remove_all(path_);
  const auto started = directory_.start();
  ASSERT_FALSE(started);
  EXPECT_NE(started.error().message.find(path_.string()), std::string::npos);
}

}  // namespace
}  // namespace llmd::config
