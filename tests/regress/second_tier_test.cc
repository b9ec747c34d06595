#include "idle_fleet.h"

#include "base/rng.h"

#include <gtest/gtest.h>

#include <set>

namespace llmd::regress {
namespace {

/// The cases of the collection that are one line each.

request::ObjectsPtr rewrite(const std::string& from, const std::string& to) {
  request::RewriteRule rule;
  if (from.empty())
    rule.any_model = true;
  else
    rule.models = {from};
  rule.targets = {{.model = to, .weight = {}}};
  return std::make_shared<const request::Objects>(
      std::vector<request::Objective>{},
      std::vector{request::ModelRewrite{.name = "r", .created = {}, .rules = {rule}}});
}

/// GIE#2769: clients read the server's name of the model in some events of a stream.
TEST(SecondTier, EveryEventNamesTheModelAsTheClientDid) {
  conformance::Picker picker(idle_fleet(1), rewrite("m", "m-v2"));
  auto step = completion("probe", "\"p\"");
  step.body.insert(1, R"("stream":true,)");
  step.reply = {"data: {\"model\":\"m-", "v2\",\"n\":1}\n\ndata: {\"model\": \"m-v2\"}\n\n",
                "data: {\"mod", "el\":\"m-v2\"}\n\ndata: [DONE]\n\n"};
  EXPECT_EQ(picker.run(step).received,
            "data: {\"model\":\"m\",\"n\":1}\n\ndata: {\"model\": \"m\"}\n\n"
            "data: {\"model\":\"m\"}\n\ndata: [DONE]\n\n");
}

/// llm-d-router#1426: a request without a model was refused although a rule knew one.
TEST(SecondTier, ARuleNamesTheModelThatIsMissing) {
  conformance::Picker picker(idle_fleet(1), rewrite("", "m-v2"));
  auto step = completion("probe", "\"p\"");
  step.body = R"({"prompt":"p"})";
  EXPECT_EQ(picker.run(step).sent, R"({"model":"m-v2","prompt":"p"})");
}

/// llm-d-router#1208: bodies that are not of a language model passed no parser.
TEST(SecondTier, OtherBodiesPassThrough) {
  conformance::Picker picker(idle_fleet(1));
  auto step = completion("probe", "\"p\"");
  step.path = "/v2/models/resnet/infer";
  step.body = std::string("\0\xff{", 3);
  const auto answer = picker.run(step);
  EXPECT_EQ(answer.error, "");
  EXPECT_EQ(answer.sent, step.body);
}

/// aibrix#2594: errors of servers came back within errors of the router.
TEST(SecondTier, AnErrorOfAServerIsPassedOnAsItIs) {
  conformance::Picker picker(idle_fleet(1));
  auto step = completion("probe", "\"p\"");
  step.reply_status = 404;
  step.reply = {R"({"error":{"message":"no such model","code":404}})"};
  EXPECT_EQ(picker.run(step).received, step.reply[0]);
}

/// production-stack#990: prefixes were remembered only where they had matched before.
TEST(SecondTier, TheFirstMissIsRemembered) {
  conformance::Picker picker(idle_fleet(4));
  const std::string prompt = "\"" + std::string(4096, 'a') + "\"";
  const auto first = picker.run(completion("probe", prompt)).picked;
  EXPECT_DOUBLE_EQ(picker.run(completion("probe", prompt)).scores.at(first), 4 + 3);
}

/// Dynamo 1.4: a session was refused because its server was busy, while others were free.
TEST(SecondTier, ASessionWhoseServerIsGoneGoesElsewhere) {
  auto fleet = idle_fleet(3);
  fleet.plugins =
      "- {type: session-affinity-filter}\n- {type: queue-scorer}\nschedulingProfiles:\n- name: "
      "default\n  plugins: [{pluginRef: session-affinity-filter}, {pluginRef: queue-scorer}]\n";
  conformance::Picker picker(fleet);
  auto step = completion("train", "\"p\"", 2);
  const auto token = picker.run(step).headers.at("answer x-session-token");
  step = completion("probe", "\"p\"");
  step.headers = {{"x-session-token", token}};
  EXPECT_EQ(picker.run(step).picked, "e2");
  picker.set_fleet(fleet, 2);
  const auto moved = picker.run(step);
  EXPECT_EQ(moved.error, "");
  EXPECT_EQ(moved.scores.size(), 2u);
}

/// GIE#2805: a generator seeded for every pick made the picks follow each other.
TEST(SecondTier, PicksOfEqualServersAreSpread) {
  auto fleet = idle_fleet(8);
  fleet.plugins =
      "- {type: random-picker}\nschedulingProfiles:\n- name: default\n  plugins: [{pluginRef: "
      "random-picker}]\n";
  conformance::Picker picker(fleet);
  std::set<std::string> pairs;
  std::string last;
  for (int i = 0; i < 2000; ++i) {
    const auto next = picker.run(completion("probe", "\"p\"")).picked;
    pairs.insert(last + next);
    last = next;
  }
  EXPECT_EQ(pairs.size(), 8u * 8 + 1);  // every one after every one, and the first
}

/// GIE#1929: a third profile made the loop over profiles endless.
TEST(SecondTier, ProfilesThatNobodyAsksForEndNothing) {
  auto fleet = idle_fleet(2);
  fleet.plugins =
      "- {type: always-disagg-pd-decider}\n- {type: pd-profile-handler, parameters: "
      "{deciderPluginName: always-disagg-pd-decider}}\n- {type: queue-scorer}\n"
      "schedulingProfiles:\n"
      "- {name: decode, plugins: [{pluginRef: queue-scorer}]}\n"
      "- {name: prefill, plugins: [{pluginRef: queue-scorer}]}\n"
      "- {name: third, plugins: [{pluginRef: queue-scorer}]}\n";
  conformance::Picker picker(fleet);
  EXPECT_EQ(picker.run(completion("probe", "\"p\"")).error, "");
}

}  // namespace
}  // namespace llmd::regress
