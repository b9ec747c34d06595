#include "pickers/rotation.h"
#include "schedule/decision_notes.h"
#include "schedule/testing.h"

#include <gtest/gtest.h>

#include <map>
#include <thread>

namespace llmd::plugins {
const plugin::Descriptor& max_score_picker();

namespace {

using schedule::Picker;
using schedule::testing::Harness;
using Picks = std::vector<uint32_t>;
using Doubles = std::vector<double>;

/// How often each endpoint is the first pick in `rounds` picks among equals.
std::vector<int> counts(Harness& harness, const Picker& picker, int rounds) {
  std::vector<int> out(harness.endpoints.size());
  const Doubles equal(out.size(), 1.0);
  for (int i = 0; i < rounds; ++i) ++out[harness.picks(picker, equal)[0]];
  return out;
}

TEST(MaxScorePicker, PicksTheHighestTotal) {
  Harness harness(3);
  const auto& picker = harness.make<Picker>(max_score_picker());
  for (int i = 0; i < 3; ++i) EXPECT_EQ(harness.picks(picker, {4.75, 2.2, 4.8}), Picks{2});
  EXPECT_EQ(harness.picks(picker, {-3, -1, -2}), Picks{1});
}

TEST(MaxScorePicker, OrdersSeveralByTotal) {
  Harness harness(3);
  const auto& picker = harness.make<Picker>(max_score_picker(), "{maxNumOfEndpoints: 3}");
  EXPECT_EQ(harness.picks(picker, {4.75, 2.2, 4.8}), (Picks{2, 0, 1}));
}

TEST(MaxScorePicker, GivesEqualsOnePickEachInAsManyPicks) {
  Harness harness(7);
  const auto& picker = harness.make<Picker>(max_score_picker());
  for (int round = 0; round < 5; ++round)
    EXPECT_EQ(counts(harness, picker, 7), std::vector<int>(7, 1));
}

TEST(MaxScorePicker, SpreadsABurstOverIdleEndpoints) {
  Harness harness(8);
  const auto& picker = harness.make<Picker>(max_score_picker());
  EXPECT_EQ(counts(harness, picker, 64), std::vector<int>(8, 8));
}

TEST(MaxScorePicker, TakesTurnsInTheFirstPlaceOfSeveral) {
  Harness harness(3);
  const auto& picker = harness.make<Picker>(max_score_picker(), "{maxNumOfEndpoints: 2}");
  std::map<Picks, int> seen;
  for (int i = 0; i < 10; ++i) ++seen[harness.picks(picker, {3.5, 3.5, 1})];
  EXPECT_EQ(seen, (std::map<Picks, int>{{{0, 1}, 5}, {{1, 0}, 5}}));
}

TEST(MaxScorePicker, GivesANewcomerOneTurnAndThenItsShare) {
  Harness harness(4);
  const auto& picker = harness.make<Picker>(max_score_picker());
  counts(harness, picker, 400);
  const auto& old = *harness.endpoints[2];
  harness.endpoints[2] = std::make_shared<fleet::Endpoint>(old.spec(), old.slot(), 99);
  harness.fresh_request();
  EXPECT_EQ(harness.picks(picker, Doubles(4, 1.0)), Picks{2});
  EXPECT_EQ(counts(harness, picker, 4), std::vector<int>(4, 1));
}

TEST(MaxScorePicker, StarvesNobodyWhenAnEndpointLeaves) {
  Harness harness(4);
  const auto& picker = harness.make<Picker>(max_score_picker());
  counts(harness, picker, 6);
  harness.endpoints.erase(harness.endpoints.begin() + 1);
  harness.fresh_request();
  EXPECT_EQ(counts(harness, picker, 3), std::vector<int>(3, 1));
}

TEST(MaxScorePicker, GoesOnWithItsTurnsAfterAReload) {
  Harness harness(3);
  EXPECT_EQ(harness.picks(harness.make<Picker>(max_score_picker()), {1, 1, 1}), Picks{0});
  EXPECT_EQ(harness.picks(harness.make<Picker>(max_score_picker()), {1, 1, 1}), Picks{1});
}

TEST(MaxScorePicker, PicksOneWhenTheNumberIsZeroOrLess) {
  Harness harness(3);
  for (const auto* parameters : {"{maxNumOfEndpoints: 0}", "{maxNumOfEndpoints: -2}"})
    EXPECT_EQ(harness.picks(harness.make<Picker>(max_score_picker(), parameters), {1, 2, 0}),
              Picks{1});
}

TEST(MaxScorePicker, PicksNoMoreThanThereAre) {
  Harness harness(2);
  const auto& picker = harness.make<Picker>(max_score_picker(), "{maxNumOfEndpoints: 9}");
  EXPECT_EQ(harness.picks(picker, {1, 2}), (Picks{1, 0}));
}

TEST(MaxScorePicker, NotesTheTurnThatItTakes) {
  Harness harness(2);
  const auto& picker = harness.make<Picker>(max_score_picker());
  schedule::DecisionNotes notes;
  harness.context.notes = &notes;
  for (int i = 0; i < 3; ++i) harness.picks(picker, {1, 1});
  EXPECT_EQ(notes.turn.taken, 3u);
  EXPECT_EQ(notes.turn.before, 1u);
  harness.context.notes = nullptr;
}

TEST(Rotation, LetsEachTurnBeTakenOnce) {
  Harness harness(1);
  Rotation rotation;
  const auto& endpoint = *harness.endpoints[0];
  const auto seen = rotation.see(endpoint);
  EXPECT_EQ(seen.turn, 0u);
  EXPECT_EQ(rotation.take(endpoint, seen), 1u);
  EXPECT_EQ(rotation.take(endpoint, seen), 0u);
  EXPECT_GT(rotation.see(endpoint).turn, 0u);
}

TEST(MaxScorePicker, SharesTurnsFairlyBetweenThreads) {
  constexpr int kThreads = 4;
  constexpr int kEndpoints = 5;
  constexpr int kPicksEach = 1000;
  Harness harness(kEndpoints);
  const auto& picker = harness.make<Picker>(max_score_picker());
  std::vector<std::vector<int>> picked(kThreads, std::vector<int>(kEndpoints));
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] {
        Harness own(kEndpoints);  // same slots and generations
        for (int i = 0; i < kPicksEach; ++i) ++picked[t][own.picks(picker, Doubles(5, 1.0))[0]];
      });
  }
  for (int e = 0; e < kEndpoints; ++e) {
    int sum = 0;
    for (const auto& mine : picked) sum += mine[e];
    EXPECT_NEAR(sum, kThreads * kPicksEach / kEndpoints, kThreads);
  }
}

}  // namespace
}  // namespace llmd::plugins
