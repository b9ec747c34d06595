#include "schedule/testing.h"
#include "screeners/rollout_shares.h"

#include <gtest/gtest.h>

#include <map>

namespace llmd::plugins {
const plugin::Descriptor& disaggregatedset_rollout_screener();

namespace {

using schedule::ResponseHook;
using schedule::Screener;
using schedule::testing::Harness;
using schedule::testing::Labels;

const RolloutCounts kCounts = {{"A", {2, 9}}, {"B", {1, 1}}, {"half", {0, 7}}};

TEST(RolloutShares, CountEndpointsOfCompleteRevisions) {
  const auto sum = rollout_shares(kCounts, 2, RolloutMode::kSum);
  ASSERT_EQ(sum.size(), 2u);
  EXPECT_NEAR(sum[0].second, 11.0 / 13, 1e-15);
  EXPECT_NEAR(sum[1].second, 2.0 / 13, 1e-15);
  const auto most = rollout_shares(kCounts, 2, RolloutMode::kMaxRole);
  EXPECT_NEAR(most[0].second, .9, 1e-15);
  EXPECT_NEAR(most[1].second, .1, 1e-15);
  EXPECT_TRUE(rollout_shares({}, 2, RolloutMode::kSum).empty());
}

TEST(RolloutShares, AreCumulatedInOrderOfNames) {
  const auto sum = rollout_shares(kCounts, 2, RolloutMode::kSum);
  EXPECT_EQ(pick_revision(sum, 0), "A");
  EXPECT_EQ(pick_revision(sum, .84), "A");
  EXPECT_EQ(pick_revision(sum, .85), "B");
  EXPECT_EQ(pick_revision(sum, .999999), "B");
}

Labels at(std::string revision, std::string role, std::string app = "x") {
  return {{"app", std::move(app)},
          {"disaggregatedset.x-k8s.io/revision", std::move(revision)},
          {"disaggregatedset.x-k8s.io/role", std::move(role)}};
}

constexpr auto kGated =
    "{scope: {labelSelector: {matchLabels: {app: x}}}, headerSelectors: [{name: rev, headerName: "
    "X-Rev, labelKey: disaggregatedset.x-k8s.io/revision}], revisionGating: {requireRoles: "
    "{values: [prefill, decode]}}}";

/// Revision a has three endpoints, b two, c no decode, d is out of scope; one has no labels.
class Rollout : public ::testing::Test {
 protected:
  Rollout() {
    auto snapshot = std::make_shared<fleet::Snapshot>();
    snapshot->endpoints = harness_.endpoints;
    harness_.context.snapshot = snapshot;
  }
  /// The revisions of the candidates that stay, one letter each.
  std::string kept(const Screener& screener) {
    auto& context = harness_.context;
    std::array<bool, 9> keep;
    keep.fill(true);
    EXPECT_TRUE(screener.screen(context, context.candidates, keep));
    std::string out;
    for (size_t i = 0; i < keep.size(); ++i)
      if (keep[i])
        if (const auto* r =
                context.candidates[i].endpoint->label("disaggregatedset.x-k8s.io/revision"))
          out += *r;
    return out;
  }
  void header(std::string_view value) {
    field_ = {"x-rev", value};
    harness_.context.headers = {{&field_, 1}};
  }

  Harness harness_{{at("a", "prefill"), at("a", "decode"), at("a", "decode"), at("b", "prefill"),
                    at("b", "decode"), at("c", "prefill"), at("d", "prefill", "y"),
                    at("d", "decode", "y"), Labels{}}};
  HeaderField field_;
};

TEST_F(Rollout, KeepsOneCompleteRevisionByItsShare) {
  const auto& screener = harness_.make<Screener>(disaggregatedset_rollout_screener(), kGated);
  std::map<std::string, int> seen;
  for (int i = 0; i < 5000; ++i) ++seen[kept(screener)];
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_NEAR(seen.at("aaa"), 3000, 174);  // five standard deviations
  EXPECT_NEAR(seen.at("bb"), 2000, 174);
}

TEST_F(Rollout, FollowsTheHeader) {
  const auto& screener = harness_.make<Screener>(disaggregatedset_rollout_screener(), kGated);
  header("b");
  for (int i = 0; i < 20; ++i) EXPECT_EQ(kept(screener), "bb");
  for (const auto* incomplete : {"c", "d", "nobody"}) {
    header(incomplete);
    EXPECT_EQ(kept(screener), "") << incomplete;
  }
  EXPECT_NE(harness_.metric_registry().render().find(
                "llm_d_epp_disaggregatedset_strict_header_no_match_total{plugin_name="
                "\"disaggregatedset-rollout-screener\",plugin_type=\"disaggregatedset-rollout-"
                "screener\",selector=\"rev\"} 3"),
            std::string::npos);
}

TEST_F(Rollout, KeepsAllWithoutGating) {
  const auto& screener = harness_.make<Screener>(
      disaggregatedset_rollout_screener(),
      "{scope: {labelSelector: {}}, revisionGating: {mode: disabled}, headerSelectors: [{name: "
      "rev, headerName: x-rev, labelKey: disaggregatedset.x-k8s.io/revision, mode: prefer}]}");
  EXPECT_EQ(kept(screener), "aaabbcdd");
  header("b");
  EXPECT_EQ(kept(screener), "aaabbcdd");
  harness_.choose(0, 3);
  dynamic_cast<const ResponseHook&>(screener).on_response_head(harness_.context);
  const auto fields = harness_.context.response_headers.fields();
  ASSERT_EQ(fields.size(), 1u);
  EXPECT_EQ(fields[0].name, "x-rev");
  EXPECT_EQ(fields[0].value, "b");
}

TEST_F(Rollout, RefusesParametersWithoutMeaning) {
  constexpr auto kScope = "scope: {labelSelector: {}}";
  constexpr auto kGate = "revisionGating: {requireRoles: {values: [a]}}";
  const auto makes = [&](const std::string& parameters) {
    return harness_.try_make(disaggregatedset_rollout_screener(), "{" + parameters + "}")
        .has_value();
  };
  EXPECT_TRUE(makes(std::string(kScope) + ", " + kGate));
  EXPECT_FALSE(makes(kScope));
  EXPECT_FALSE(makes(kGate));
  EXPECT_FALSE(makes(std::string(kScope) + ", revisionGating: {}"));
  EXPECT_FALSE(makes(std::string(kScope) + ", revisionGating: {requireRoles: {values: [a, a]}}"));
  EXPECT_FALSE(makes(std::string(kScope) + ", revisionGating: {requireRoles: {values: ['']}}"));
  EXPECT_FALSE(makes(std::string(kScope) + ", " + kGate + ", headerSelectors: [{name: a}]"));
  EXPECT_FALSE(makes(std::string(kScope) + ", " + kGate +
                     ", headerSelectors: [{name: a, headerName: h, labelKey: l}, {name: b, "
                     "headerName: H, labelKey: m}]"));
}

}  // namespace
}  // namespace llmd::plugins
