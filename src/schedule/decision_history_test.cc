#include "schedule/decision_history.h"

#include "schedule/testing.h"

#include <gtest/gtest.h>

#include <string>

namespace llmd::schedule {
namespace {

using testing::Harness;

/// A context with results of one profile, as a decision leaves it.
struct DecisionHistoryTest : ::testing::Test {
  explicit DecisionHistoryTest(size_t endpoints = 3) : harness(endpoints) {
    auto& c = harness.context;
    c.path = "/v1/completions";
    c.target_model = "m-v2";
    c.priority = -3;
    c.request_bytes = 120;
    c.notes = &notes;
    pipeline.outline = std::make_shared<Outline>();
    decide();
  }
  ~DecisionHistoryTest() override { harness.context.notes = nullptr; }

  void decide() {
    auto& c = harness.context;
    const size_t n = c.candidates.size();
    c.results = harness.arena.array<ProfileResult>(1);
    const auto scored = harness.arena.array<uint32_t>(n);
    std::iota(scored.begin(), scored.end(), 0u);
    c.results[0] = {.ran = true,
                    .targets = scored.last(1),
                    .scored = scored,
                    .totals = harness.arena.array<double>(n)};
    c.primary = 0;
    notes.profiles = harness.arena.array<ProfileNotes>(1);
    notes.profiles[0].scores = harness.arena.array<double>(2 * n);
    notes.profiles[0].scores[n] = 0.25;
    notes.profiles[0].passed = harness.arena.array<uint16_t>(n);
    notes.profiles[0].seconds = harness.arena.array<float>(3);
    notes.profiles[0].turn = {.taken = 9, .before = 4};
    notes.producers = harness.arena.array<float>(2);
    notes.producers[1] = DecisionNotes::kFailed;
  }

  void add(DecisionHistory& history, const std::string& id, TryOutcome outcome = {}) {
    harness.context.request_id = id;
    outcome.at = TimePoint(Nanos(++now_));
    history.add(harness.context, &pipeline, outcome);
  }

  static std::vector<std::string> ids(const DecisionHistory& history, size_t limit = 1000) {
    std::vector<std::string> out;
    for (const auto& kept : history.find({.limit = limit}))
      out.emplace_back(kept.read().request_id);
    return out;
  }

  Harness harness;
  DecisionNotes notes;
  Pipeline pipeline;

 private:
  int64_t now_ = 0;
};

TEST_F(DecisionHistoryTest, GivesBackWhatWasDecided) {
  harness.metrics_of(1) = {.waiting_queue_size = 7,
                           .running_requests_size = 2,
                           .kv_cache_usage = 0.5,
                           .updated = TimePoint(Nanos(1))};
  DecisionHistory history(4);
  const auto* target = harness.endpoints[2].get();
  add(history, "r", {.number = 2, .after = "connect", .target = target});
  const auto found = history.find({.request_id = "r", .limit = 5});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].outline, pipeline.outline);
  const Decision d = found[0].read();
  EXPECT_EQ(d.request_id, "r");
  EXPECT_EQ(d.path, "/v1/completions");
  EXPECT_EQ(d.target_model, "m-v2");
  EXPECT_EQ(d.after, "connect");
  EXPECT_EQ(d.number, 2);
  EXPECT_EQ(d.target, target);
  EXPECT_EQ(d.priority, -3);
  EXPECT_EQ(d.request_bytes, 120u);
  EXPECT_EQ(d.candidates, 3u);
  ASSERT_EQ(d.candidate_notes.size(), 3u);
  EXPECT_EQ(d.candidate_notes[1].endpoint, harness.endpoints[1].get());
  EXPECT_EQ(d.candidate_notes[1].waiting, 7);
  EXPECT_EQ(d.candidate_notes[1].running, 2);
  EXPECT_EQ(d.candidate_notes[1].kv_usage, 0.5F);
  EXPECT_GE(d.candidate_notes[1].metrics_age, 0);
  EXPECT_LT(d.candidate_notes[0].metrics_age, 0) << "never scraped";
  EXPECT_EQ(d.producers[1], DecisionNotes::kFailed);
  ASSERT_EQ(d.profiles.size(), 1u);
  const auto& profile = d.profiles[0];
  EXPECT_TRUE(profile.ran);
  EXPECT_EQ(profile.targets[0], 2u);
  EXPECT_EQ(profile.scored.size(), 3u);
  EXPECT_EQ(profile.scores[3], 0.25);
  EXPECT_EQ(profile.passed.size(), 3u);
  EXPECT_EQ(profile.seconds.size(), 3u);
  EXPECT_EQ(profile.turn.before, 4u);
}

TEST_F(DecisionHistoryTest, ListsFactsAndTextsOfTheNewest) {
  DecisionHistory history(4);
  for (const auto* id : {"a", "b", "c"}) add(history, id, {.error = "why"});
  EXPECT_EQ(ids(history, 2), (std::vector<std::string>{"c", "b"}));
  const auto list = history.find({.limit = 1});
  EXPECT_EQ(list[0].read().error, "why");
  EXPECT_TRUE(list[0].read().profiles.empty());
  EXPECT_LT(list[0].bytes.size(), 512u);
}

TEST_F(DecisionHistoryTest, ForgetsTheOldestBeyondItsNumber) {
  DecisionHistory history(2);
  for (const auto* id : {"a", "b", "c"}) add(history, id);
  EXPECT_EQ(ids(history), (std::vector<std::string>{"c", "b"}));
  EXPECT_TRUE(history.find({.request_id = "a", .limit = 1}).empty());
}

TEST_F(DecisionHistoryTest, KeepsTheTriesOfARequest) {
  DecisionHistory history(4);
  add(history, "r", {.number = 1});
  add(history, "other");
  add(history, "r", {.number = 2});
  const auto found = history.find({.request_id = "r", .limit = 9});
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].read().number, 2);
  EXPECT_EQ(found[1].read().number, 1);
}

TEST_F(DecisionHistoryTest, KeepsAnAnswerAfterTriesWithoutThem) {
  DecisionHistory history(4);
  add(history, "r", {.status = 503, .error = "gone", .decided = false});
  const auto found = history.find({.request_id = "r", .limit = 1});
  const Decision d = found[0].read();
  EXPECT_EQ(d.error, "gone");
  EXPECT_EQ(d.candidates, 0u);
  EXPECT_TRUE(d.profiles.empty());
}

TEST_F(DecisionHistoryTest, CutsTexts) {
  DecisionHistory history(2);
  const std::string large(100'000, 'x');
  harness.context.path = large;
  add(history, "r", {.error = large});
  const auto found = history.find({.request_id = "r", .limit = 1});
  EXPECT_EQ(found[0].read().path.size(), DecisionHistory::kTextBytesMax);
  EXPECT_EQ(found[0].read().error.size(), DecisionHistory::kTextBytesMax);
}

TEST_F(DecisionHistoryTest, PinsTheEndpointsThatItNames) {
  DecisionHistory history(1);
  auto snapshot = std::make_shared<fleet::Snapshot>();
  const std::weak_ptr<const fleet::Snapshot> watched = snapshot;
  harness.context.snapshot = std::move(snapshot);
  add(history, "r");
  harness.context.snapshot = nullptr;
  EXPECT_FALSE(watched.expired());
  add(history, "next");
  EXPECT_TRUE(watched.expired());
}

/// 100 endpoints need about 6 KiB, so bytes run out before entries do.
struct LargeDecisions : DecisionHistoryTest {
  LargeDecisions() : DecisionHistoryTest(100) {}
};

TEST_F(LargeDecisions, ShareTheMemoryOfMore) {
  DecisionHistory history(64);
  std::vector<std::string> expected;
  for (int i = 0; i < 500; ++i) {
    add(history, std::to_string(i));
    const auto kept = ids(history);
    ASSERT_EQ(kept.front(), std::to_string(i));
    for (size_t k = 1; k < kept.size(); ++k)
      ASSERT_EQ(kept[k], std::to_string(i - static_cast<int>(k))) << "without gaps";
    ASSERT_GT(kept.size(), i >= 100 ? 25u : 0u);
    ASSERT_LT(kept.size(), 64u);
  }
  for (const auto& kept : history.find({.request_id = "480", .limit = 1}))
    EXPECT_EQ(kept.read().candidate_notes[99].endpoint, harness.endpoints[99].get());
}

TEST_F(LargeDecisions, AreCutWhenTheyNeedMoreThanAQuarter) {
  DecisionHistory history(4);
  add(history, "r", {.target = harness.endpoints[0].get()});
  const auto found = history.find({.request_id = "r", .limit = 1});
  ASSERT_EQ(found.size(), 1u);
  const Decision d = found[0].read();
  EXPECT_TRUE(d.cut);
  EXPECT_EQ(d.candidates, 100u);
  EXPECT_EQ(d.target, harness.endpoints[0].get());
  EXPECT_TRUE(d.profiles.empty());
}

TEST_F(DecisionHistoryTest, StaysWholeWhateverTheSizes) {
  Rng rng(5);
  DecisionHistory history(16);
  const std::string text(200, 'x');
  int64_t newest = 0;
  for (int i = 0; i < 3000; ++i) {
    harness.context.candidates = harness.context.candidates.first(rng.below(4));
    decide();
    harness.context.path = std::string_view(text).substr(0, rng.below(200));
    add(history, "r", {.number = static_cast<uint16_t>(++newest)});
    uint16_t expected = static_cast<uint16_t>(newest);
    for (const auto& kept : history.find({.request_id = "r", .limit = 99}))
      ASSERT_EQ(kept.read().number, expected--);
    harness.fresh_request();
    harness.context.notes = &notes;
  }
}

}  // namespace
}  // namespace llmd::schedule
