#include "handlers/testing.h"
#include "producers/testing.h"
#include "schedule/attributes.h"

#include <gtest/gtest.h>

namespace llmd::plugins {
const plugin::Descriptor& disagg_profile_handler();
const plugin::Descriptor& pd_profile_handler();
const plugin::Descriptor& disagg_headers_handler();
const plugin::Descriptor& prefill_header_handler();
const plugin::Descriptor& always_disagg_pd_decider();
const plugin::Descriptor& always_disagg_multimodal_decider();
const plugin::Descriptor& prefix_based_pd_decider();

namespace {

using schedule::Decider;
using schedule::PrefixMatch;
using schedule::PreRequest;
using schedule::ProfileHandler;
using schedule::testing::Harness;
using testing::Rounds;
using testing::TokenRequest;
using Names = std::vector<std::string>;

constexpr auto kApprox = "approx-prefix-cache-producer";

// --- deciders

/// Whether the prompt of `tokens` is processed apart when `cached` blocks of 64 are there.
bool decides(uint32_t tokens, int64_t cached, std::string_view parameters) {
  Harness harness(1);
  auto& decider = harness.make<Decider>(prefix_based_pd_decider(), parameters);
  const TokenRequest request(harness, {tokens});
  harness.provide<PrefixMatch>(kApprox)[0] = {.block_tokens = 64, .cached_blocks = cached};
  return decider.separates(harness.context, 0);
}

TEST(PrefixBasedPdDecider, ComparesWhatIsNotCached) {
  const struct {
    uint32_t tokens;
    int64_t cached;
    bool apart;
  } kCases[] = {{10, 0, false}, {16, 0, true},   {200, 2, true},
                {144, 2, true}, {143, 2, false}, {100, 2, false}};
  for (const auto& c : kCases)
    EXPECT_EQ(decides(c.tokens, c.cached, "{nonCachedTokens: 16}"), c.apart)
        << c.tokens << " " << c.cached;
  EXPECT_FALSE(decides(200, 0, "{nonCachedTokens: 16, promptTokens: 256}"));
  EXPECT_TRUE(decides(256, 0, "{nonCachedTokens: 16, promptTokens: 256}"));
  EXPECT_FALSE(decides(200, 0, "{nonCachedTokens: 0}"));
}

TEST(PrefixBasedPdDecider, SaysNoWithoutTargetOrMatches) {
  Harness harness(1);
  auto& decider = harness.make<Decider>(prefix_based_pd_decider(), "{nonCachedTokens: 1}");
  const TokenRequest request(harness, {100});
  EXPECT_FALSE(decider.separates(harness.context, 0));
  harness.provide<PrefixMatch>(kApprox);
  EXPECT_TRUE(decider.separates(harness.context, 0));
  EXPECT_FALSE(decider.separates(harness.context, std::nullopt));
}

TEST(PrefixBasedPdDecider, ReadsTheMatchesOfTheNamedProducer) {
  Harness harness(1);
  harness.make<Decider>(prefix_based_pd_decider(), "{prefixMatchInfoProducerName: precise}");
  EXPECT_EQ(harness.wiring.edges().back().key, "PrefixCacheMatchInfoDataKey/precise");
}

TEST(PrefixBasedPdDecider, RefusesNegativeNumbers) {
  Harness harness(1);
  EXPECT_FALSE(harness.try_make(prefix_based_pd_decider(), "{nonCachedTokens: -1}"));
  EXPECT_FALSE(harness.try_make(prefix_based_pd_decider(), "{promptTokens: -1}"));
}

TEST(AlwaysDisaggMultimodalDecider, LooksForMedia) {
  Harness harness(1);
  auto& decider = harness.make<Decider>(always_disagg_multimodal_decider());
  request::RequestView view;
  std::vector<request::Piece> pieces = {{.text = "see:", .bytes = 4}};
  std::vector<request::Prompt> prompts(1);
  prompts[0].pieces = pieces;
  view.prompts = prompts;
  EXPECT_FALSE(decider.separates(harness.context, 0));
  harness.context.request = &view;
  EXPECT_FALSE(decider.separates(harness.context, 0));
  pieces.push_back({.kind = request::Piece::Kind::kPlaceholder, .token = 7, .count = 3});
  prompts[0].pieces = pieces;
  EXPECT_TRUE(decider.separates(harness.context, std::nullopt));
}

// --- handlers

class DisaggTest : public ::testing::Test {
 protected:
  /// Deciders: "yes" always, "media" for media, "no" never.
  void configure(const plugin::Descriptor& descriptor, std::string_view parameters = "",
                 Names profiles = {"decode", "prefill", "encode"}) {
    harness_.make<Decider>(always_disagg_pd_decider(), "", "yes");
    harness_.make<Decider>(prefix_based_pd_decider(), "", "no");
    handler_ = &harness_.make<ProfileHandler>(descriptor, parameters);
    ASSERT_TRUE(harness_.wiring.status());
    rounds_.emplace(harness_, *handler_, std::move(profiles));
  }
  void pre_request() {
    EXPECT_TRUE(dynamic_cast<const PreRequest*>(handler_)->pre_request(harness_.context));
  }
  std::optional<uint32_t> peer() {
    const auto* peer = harness_.context.get(harness_.wiring.consumes_value<schedule::Peer>(
        schedule::kPeerEndpoint, schedule::Need::kOptional));
    return peer ? std::optional(peer->candidate) : std::nullopt;
  }
  std::string metrics() { return harness_.metric_registry().render(); }

  Harness harness_{4};
  ProfileHandler* handler_ = nullptr;
  std::optional<Rounds> rounds_;
};

TEST_F(DisaggTest, DecodesFirstAndAsksTheDeciders) {
  configure(disagg_profile_handler(), "{deciders: {prefill: 'yes', encode: 'yes'}}");
  EXPECT_EQ(rounds_->run({{"decode", {1}}, {"encode", {2, 3}}, {"prefill", {0, 2}}}),
            (Names{"decode", "encode", "prefill"}));
  EXPECT_EQ(peer(), 1u);
  EXPECT_EQ(rounds_->finish(), "decode");
  pre_request();
  EXPECT_EQ(rounds_->header("x-prefiller-host-port"), "10.0.0.0:8000");
  EXPECT_EQ(rounds_->header("x-encoder-hosts-ports"), "10.0.0.2:8000,10.0.0.3:8000");
  EXPECT_NE(
      metrics().find(R"(llm_d_epp_disagg_decision_total{decision_type="encode-prefill-decode")"
                     R"(,model_name="unknown",plugin_name="disagg-profile-handler")"),
      std::string::npos);
  EXPECT_NE(metrics().find("llm_d_inference_scheduler_disagg_decision_total{decision_type="
                           "\"encode-prefill-decode\",model_name=\"unknown\"} 1"),
            std::string::npos);
}

TEST_F(DisaggTest, DecodesOnlyWhenTheDecidersSayNo) {
  configure(disagg_profile_handler(), "{deciders: {prefill: 'no'}}");
  EXPECT_EQ(rounds_->run({{"decode", {1}}}), Names{"decode"});
  EXPECT_EQ(rounds_->finish(), "decode");
  pre_request();
  EXPECT_FALSE(rounds_->header("x-prefiller-host-port"));
  EXPECT_FALSE(peer());
  EXPECT_NE(metrics().find("decision_type=\"decode-only\""), std::string::npos);
}

TEST_F(DisaggTest, LeavesAFailedPrefillToTheDecodingEndpoint) {
  configure(disagg_profile_handler(), "{deciders: {prefill: 'yes'}}");
  EXPECT_EQ(rounds_->run({{"decode", {1}}, {"prefill", {}}}), (Names{"decode", "prefill"}));
  EXPECT_EQ(rounds_->finish(), "decode");
  pre_request();
  EXPECT_FALSE(rounds_->header("x-prefiller-host-port"));
  EXPECT_NE(metrics().find("decision_type=\"decode-only\""), std::string::npos);
}

TEST_F(DisaggTest, FailsWithoutADecodingEndpoint) {
  configure(disagg_profile_handler(), "{deciders: {prefill: 'yes'}}");
  EXPECT_EQ(rounds_->run({{"decode", {}}}), Names{"decode"});
  EXPECT_EQ(rounds_->finish(), "failed to find available decode workers");
}

TEST_F(DisaggTest, SkipsStagesWithoutProfile) {
  configure(disagg_profile_handler(), "{deciders: {prefill: 'yes', encode: 'yes'}}", {"decode"});
  EXPECT_EQ(rounds_->run({{"decode", {1}}}), Names{"decode"});
}

TEST_F(DisaggTest, PrefillsFirstWhenToldTo) {
  configure(disagg_profile_handler(), "{stageOrder: Prefill_First, deciders: {encode: 'yes'}}");
  EXPECT_EQ(rounds_->run({{"prefill", {3}}, {"encode", {2}}, {"decode", {1}}}),
            (Names{"prefill", "encode", "decode"}));
  EXPECT_EQ(peer(), 3u);
  EXPECT_EQ(rounds_->finish(), "decode");
}

TEST_F(DisaggTest, DecodesAfterAFailedPrefill) {
  configure(disagg_profile_handler(), "{stageOrder: prefill}");
  EXPECT_EQ(rounds_->run({{"prefill", {}}, {"decode", {1}}}), (Names{"prefill", "decode"}));
  EXPECT_FALSE(peer());
  EXPECT_EQ(rounds_->finish(), "decode");
}

TEST_F(DisaggTest, RenamesProfilesInEitherSpelling) {
  configure(disagg_profile_handler(),
            "{profiles: {decode: d, prefill: p}, deciders: {prefill: 'yes'}}", {"p", "d"});
  EXPECT_EQ(rounds_->run({{"d", {1}}, {"p", {0}}}), (Names{"d", "p"}));
  EXPECT_EQ(handler_->prefill_profile(), "p");
}

TEST_F(DisaggTest, TakesTheFlatSpelling) {
  configure(disagg_profile_handler(),
            "{decodeProfile: d, prefillProfile: p, deciderPluginName: 'yes'}", {"p", "d"});
  EXPECT_EQ(rounds_->run({{"d", {1}}, {"p", {0}}}), (Names{"d", "p"}));
}

TEST_F(DisaggTest, RefusesParametersThatContradict) {
  for (const auto* parameters :
       {"{profiles: {decode: d}, prefillProfile: p}", "{stageOrder: encode-first}",
        "{stageOrder: prefill-first, deciders: {prefill: x}}", "{deciders: {decode: x}}"})
    EXPECT_FALSE(harness_.try_make(disagg_profile_handler(), parameters)) << parameters;
}

TEST_F(DisaggTest, RefusesUnknownDecidersAndProfiles) {
  harness_.make<ProfileHandler>(disagg_profile_handler(), "{deciders: {prefill: nobody}}");
  ASSERT_FALSE(harness_.wiring.status());
  EXPECT_EQ(harness_.wiring.status().error().message,
            "parameter 'deciders.prefill': no plugin is named 'nobody'");
  auto& handler = harness_.make<ProfileHandler>(disagg_profile_handler(), "", "other");
  const Names names = {"decod", "prefill"};
  EXPECT_EQ(handler.bind(names).error().message,
            "there is no profile 'decode' to decode with (did you mean 'decod'?)");
  harness_.make<ProfileHandler>(disagg_profile_handler(), "{deciders: {encode: other}}", "third");
  EXPECT_EQ(harness_.wiring.status().error().message,
            "parameter 'deciders.encode': 'other' is no decider");
}

TEST_F(DisaggTest, PdHandlerSendsThroughThePrimaryPort) {
  configure(pd_profile_handler(), "{deciderPluginName: 'yes', primaryPort: 9000}");
  EXPECT_EQ(rounds_->run({{"decode", {1}}, {"prefill", {2}}}), (Names{"decode", "prefill"}));
  EXPECT_EQ(rounds_->finish(), "decode");
  pre_request();
  EXPECT_EQ(harness_.context.forward_port, 9000);
  EXPECT_EQ(rounds_->header("x-data-parallel-host-port"), "10.0.0.1:8000");
  EXPECT_FALSE(rounds_->header("x-prefiller-host-port"));
  EXPECT_NE(metrics().find("llm_d_epp_pd_decision_total{decision_type=\"prefill-decode\""),
            std::string::npos);
}

TEST_F(DisaggTest, HeadersHandlersOnlySetHeaders) {
  for (const auto* descriptor : {&disagg_headers_handler(), &prefill_header_handler()}) {
    harness_.fresh_request();
    auto& hook = harness_.make<PreRequest>(*descriptor);
    harness_.choose(1, 3, false);
    harness_.choose(0, 1);
    EXPECT_TRUE(hook.pre_request(harness_.context));
    const auto fields = harness_.context.request_headers.fields();
    ASSERT_EQ(fields.size(), 1u);
    EXPECT_EQ(fields[0].name, "x-prefiller-host-port");
    EXPECT_EQ(fields[0].value, "10.0.0.3:8000");
  }
}

}  // namespace
}  // namespace llmd::plugins
