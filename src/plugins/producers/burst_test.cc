#include "producers/burst_assignment.h"
#include "producers/testing.h"
#include "schedule/attributes.h"

#include <gtest/gtest.h>

namespace llmd::plugins {
const plugin::Descriptor& burst_prefix_cache_producer();

namespace {

using schedule::PrefixMatch;
using schedule::Producer;
using schedule::Progress;
using schedule::testing::Harness;
using Chain = std::vector<uint64_t>;
using Chains = std::vector<Chain>;

const std::vector<BurstReplica> kFour = {{"p1"}, {"p2"}, {"p3"}, {"p4"}};

/// Requests per replica; those that are not assigned last.
std::vector<size_t> counts(const Chains& prompts, const BurstRules& rules,
                           const std::vector<BurstReplica>& replicas = kFour) {
  std::vector<size_t> out(replicas.size() + 1);
  for (const auto& target : assign_burst(prompts, replicas, rules))
    ++out[target.value_or(replicas.size())];
  return out;
}

Chains repeated(size_t n, const Chain& chain) {
  return Chains(n, chain);
}
Chains operator+(Chains a, const Chains& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

using Counts = std::vector<size_t>;

TEST(AssignBurst, KeepsEqualPromptsTogetherUpToTheMost) {
  const auto eight = repeated(8, {1, 2, 3});
  EXPECT_EQ(counts(eight, {.per_replica_max = -1}), (Counts{8, 0, 0, 0, 0}));
  EXPECT_EQ(counts(eight, {.per_replica_max = 2}), (Counts{2, 2, 2, 2, 0}));
  EXPECT_EQ(counts(eight, {.per_replica_max = 4}), (Counts{4, 4, 0, 0, 0}));
}

TEST(AssignBurst, GoesOnBeyondTheMostWhenAllAreFull) {
  EXPECT_EQ(counts(repeated(10, {1}), {.per_replica_max = 2}), (Counts{3, 3, 2, 2, 0}));
}

TEST(AssignBurst, CountsTheMostForEachPromptByItself) {
  EXPECT_EQ(counts(repeated(3, {1, 2, 3}) + repeated(6, {4}), {.per_replica_max = 2}),
            (Counts{2, 3, 2, 2, 0}));
}

TEST(AssignBurst, LeavesLoneRequestsAlone) {
  EXPECT_EQ(counts({{1, 2}}, {}), (Counts{0, 0, 0, 0, 1}));
  EXPECT_EQ(counts({{1, 2}, {3}, {}}, {}), (Counts{0, 0, 0, 0, 3}));
}

TEST(AssignBurst, PutsTheNextGroupOnTheNextReplica) {
  EXPECT_EQ(counts(repeated(8, {1, 2}) + repeated(8, {3, 4}), {}), (Counts{8, 8, 0, 0, 0}));
}

TEST(AssignBurst, PrefersReplicasThatRunLess) {
  EXPECT_EQ(counts(repeated(2, {1}), {}, {{"a", 3}, {"b", 1}, {"c", 1}}), (Counts{0, 2, 0, 0}));
}

TEST(AssignBurst, KeepsCommonBeginningsTogetherWhenAsked) {
  const Chains prompts = {{1, 2, 3}, {1, 2, 4}, {9}, {1, 7}};
  EXPECT_EQ(counts(prompts, {}), (Counts{0, 0, 0, 0, 4}));
  const auto targets = assign_burst(prompts, std::span(kFour).first(2), {.colocate_blocks_min = 1});
  EXPECT_EQ(targets[0], 0u);
  EXPECT_EQ(targets[1], 0u);  // 3 requests over 2 replicas: up to 2 each
  EXPECT_EQ(targets[2], std::nullopt);
  EXPECT_EQ(targets[3], 1u);
}

TEST(AssignBurst, BalancesByBlocksWhenAsked) {
  const auto prompts =
      repeated(2, {1, 2, 3, 4}) + repeated(2, {5}) + repeated(2, {6}) + repeated(2, {7});
  EXPECT_EQ(counts(prompts, {.balance_by_tokens = true}, {{"a"}, {"b"}}), (Counts{2, 6, 0}));
}

class Burst : public ::testing::Test {
 protected:
  Burst() { harness_.clock.advance(std::chrono::hours(1)); }
  void configure(std::string_view parameters = "") {
    producer_ = &harness_.make<Producer>(burst_prefix_cache_producer(), parameters);
    matches_ = harness_.wiring.consumes<PrefixMatch>("burst-prefix-cache-producer",
                                                     schedule::Need::kOptional);
  }
  Progress produce() {
    const auto progress = producer_->produce(harness_.context);
    EXPECT_TRUE(progress);
    return progress ? *progress : Progress::kDone;
  }

  Harness harness_{2};
  const Producer* producer_ = nullptr;
  schedule::Consumed<PrefixMatch> matches_;
};

TEST_F(Burst, WaitsForTheEndOfTheWindow) {
  configure("{windowDurationMs: 50}");
  EXPECT_EQ(producer_->deadline(), std::chrono::milliseconds(350));
  const testing::TokenRequest request(harness_, {200});
  EXPECT_EQ(produce(), Progress::kSuspended);
  EXPECT_EQ(harness_.slept, std::chrono::milliseconds(50));
  harness_.clock.advance(std::chrono::milliseconds(20));
  EXPECT_EQ(produce(), Progress::kSuspended);
  EXPECT_EQ(harness_.slept, std::chrono::milliseconds(30));
  harness_.clock.advance(std::chrono::milliseconds(30));
  EXPECT_EQ(produce(), Progress::kDone);
  const auto matches = harness_.context.read(matches_);
  ASSERT_EQ(matches.size(), 2u);
  EXPECT_EQ(matches[0].match_blocks, 0);  // alone
  EXPECT_EQ(matches[0].total_blocks, 4);
  EXPECT_EQ(matches[0].block_tokens, 64);
}

TEST_F(Burst, AssignsRequestsThatArriveTogether) {
  configure();
  Harness other(2);
  other.clock.advance(std::chrono::hours(1));
  const testing::TokenRequest mine(harness_, {200});
  EXPECT_EQ(produce(), Progress::kSuspended);
  // The same prompt on another loop: only its context differs.
  const testing::TokenRequest theirs(other, {200});
  other.context.slots = other.arena.array<void*>(Harness::kSlotsMax);
  EXPECT_EQ(*producer_->produce(other.context), Progress::kSuspended);
  for (auto* harness : {&harness_, &other}) {
    harness->clock.advance(std::chrono::milliseconds(100));
    EXPECT_EQ(*producer_->produce(harness->context), Progress::kDone);
    const auto matches = harness->context.read(matches_);
    EXPECT_EQ(matches[0].match_blocks, 4);
    EXPECT_EQ(matches[1].match_blocks, 0);
  }
}

TEST_F(Burst, TakesNobodyIntoAWindowThatIsAssigned) {
  configure();
  Harness late(2);  // its loop's clock is behind
  late.clock.advance(std::chrono::hours(1));
  const testing::TokenRequest first(harness_, {200});
  EXPECT_EQ(produce(), Progress::kSuspended);
  const testing::TokenRequest second(harness_, {200});
  EXPECT_EQ(produce(), Progress::kSuspended);
  harness_.clock.advance(std::chrono::milliseconds(100));
  EXPECT_EQ(produce(), Progress::kDone);  // one of two has collected: the window is still there
  const testing::TokenRequest behind(late, {200});
  EXPECT_EQ(*producer_->produce(late.context), Progress::kSuspended);
  EXPECT_EQ(late.slept, std::chrono::milliseconds(100)) << "a window of its own";
}

TEST_F(Burst, DoesNotWaitForRequestsWithoutPrompt) {
  configure();
  harness_.fresh_request();
  EXPECT_EQ(produce(), Progress::kDone);
  EXPECT_TRUE(harness_.context.read(matches_).empty());
}

TEST_F(Burst, RefusesMoreThanAWindowTakes) {
  configure("{maxBatchSize: 1}");
  const testing::TokenRequest first(harness_, {200});
  EXPECT_EQ(produce(), Progress::kSuspended);
  const testing::TokenRequest second(harness_, {200});
  EXPECT_FALSE(producer_->produce(harness_.context));
}

TEST_F(Burst, RefusesParametersWithoutMeaning) {
  for (const auto* parameters :
       {"{windowDurationMs: 0}", "{windowDurationMs: 10001}", "{maxPerReplica: 0}",
        "{blockSizeTokens: 0}", "{maxPrefixTokensToMatch: 63}", "{maxBatchSize: 0}",
        "{maxBatchSize: -2}", "{balanceBy: bytes}", "{minColocateBlocks: -1}"})
    EXPECT_FALSE(harness_.try_make(burst_prefix_cache_producer(), parameters)) << parameters;
  EXPECT_TRUE(harness_.try_make(burst_prefix_cache_producer(), "{maxPrefixTokensToMatch: 64}"));
}

}  // namespace
}  // namespace llmd::plugins
