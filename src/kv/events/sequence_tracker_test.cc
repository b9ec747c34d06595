#include "kv_events/sequence_tracker.h"

#include "base/rng.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <ostream>
#include <vector>

namespace llmd::kv_events {

using Step = SequenceTracker::Step;
using Action = Step::Action;

void PrintTo(const Step& step, std::ostream* out) {
  constexpr const char* kNames[] = {"apply", "drop", "replay"};
  *out << (step.reset ? "reset, " : "") << "lost " << step.lost << ", "
       << kNames[static_cast<size_t>(step.action)];
}

namespace {

constexpr Step kApply{};
constexpr Step kDrop{.action = Action::kDrop};
constexpr Step kReplay{.action = Action::kReplay};
constexpr Step kResetAndApply{.reset = true};
constexpr Step kResetAndReplay{.reset = true, .action = Action::kReplay};
constexpr Step lost(uint64_t n) {
  return {.lost = n};
}

constexpr TimePoint at(int64_t s) {
  return TimePoint(std::chrono::seconds(s));
}

TEST(SequenceTracker, AppliesWhatFollows) {
  SequenceTracker tracker(true);
  for (uint64_t s = 0; s < 200; ++s)
    EXPECT_EQ(tracker.live(s, static_cast<double>(s), at(0)), kApply);
}

TEST(SequenceTracker, SaysWhatWasLostWithoutReplay) {
  SequenceTracker tracker(false);
  EXPECT_EQ(tracker.live(5, 5, at(0)), kApply);  // joined later: nothing known is wrong
  EXPECT_EQ(tracker.live(6, 6, at(0)), kApply);
  EXPECT_EQ(tracker.live(9, 9, at(0)), lost(2));
  EXPECT_EQ(tracker.live(7, 7, at(0)), kDrop);  // late
  EXPECT_EQ(tracker.live(9, 9, at(0)), kDrop);  // twice
  EXPECT_EQ(tracker.live(10, 10, at(0)), kApply);
}

TEST(SequenceTracker, LeavesOutWhatIsNotItsOwn) {
  SequenceTracker tracker(false);
  tracker.skip_to(3);  // before its first it has nothing to miss
  EXPECT_EQ(tracker.live(7, 7, at(0)), kApply);
  tracker.skip_to(9);
  EXPECT_EQ(tracker.live(9, 9, at(0)), kApply);
  tracker.skip_to(5);
  EXPECT_EQ(tracker.live(12, 12, at(0)), lost(2));
}

TEST(SequenceTracker, AsksForThePastWhenItJoins) {
  SequenceTracker tracker(true);
  EXPECT_EQ(tracker.connected(at(0)), kReplay);
  EXPECT_EQ(tracker.replay_from(), 0u);
  EXPECT_EQ(tracker.replayed(0, 0), kApply);
  EXPECT_EQ(tracker.replayed(1, 1), kApply);
  EXPECT_EQ(tracker.replay_ended(true, at(1)), kDrop);
  EXPECT_EQ(tracker.live(0, 0, at(1)), kDrop);
  EXPECT_EQ(tracker.live(1, 1, at(1)), kDrop);
  EXPECT_EQ(tracker.live(2, 2, at(1)), kApply);
}

TEST(SequenceTracker, AsksAgainForWhatWasPublishedBeforeTheFirstLiveMessage) {
  SequenceTracker tracker(true);
  EXPECT_EQ(tracker.connected(at(0)), kReplay);
  EXPECT_EQ(tracker.replayed(0, 0), kApply);
  EXPECT_EQ(tracker.replay_ended(true, at(0)), kDrop);
  EXPECT_EQ(tracker.live(2, 2, at(0)), kReplay);
  EXPECT_EQ(tracker.replay_from(), 0u);
}

TEST(SequenceTracker, AcceptsAPastThatIsCutShort) {
  SequenceTracker tracker(true);
  EXPECT_EQ(tracker.live(700, 700, at(0)), kReplay);
  EXPECT_EQ(tracker.replay_from(), 0u);
  EXPECT_EQ(tracker.replayed(600, 600), kApply);
  for (uint64_t s = 601; s <= 700; ++s)
    EXPECT_EQ(tracker.replayed(s, static_cast<double>(s)), kApply);
  EXPECT_EQ(tracker.replay_ended(true, at(0)), kDrop);
  EXPECT_EQ(tracker.live(700, 700, at(0)), kDrop);
}

TEST(SequenceTracker, ClosesAGapByReplay) {
  SequenceTracker tracker(true);
  tracker.live(0, 0, at(0));
  EXPECT_EQ(tracker.live(3, 3, at(0)), kReplay);
  EXPECT_EQ(tracker.replay_from(), 0u);  // the last one known, to see that it is the same
  EXPECT_EQ(tracker.replayed(0, 0), kDrop);
  EXPECT_EQ(tracker.replay_from(), 1u);
  for (uint64_t s = 1; s <= 4; ++s) EXPECT_EQ(tracker.replayed(s, static_cast<double>(s)), kApply);
  EXPECT_EQ(tracker.replay_ended(true, at(0)), kDrop);
  EXPECT_EQ(tracker.live(3, 3, at(0)), kDrop);
  EXPECT_EQ(tracker.live(4, 4, at(0)), kDrop);
  EXPECT_EQ(tracker.live(5, 5, at(0)), kApply);
}

TEST(SequenceTracker, ClosesAGapRightBehindAnother) {
  SequenceTracker tracker(true);
  tracker.live(0, 0, at(0));
  EXPECT_EQ(tracker.live(2, 2, at(0)), kReplay);
  EXPECT_EQ(tracker.replayed(0, 0), kDrop);
  for (uint64_t s = 1; s <= 2; ++s) EXPECT_EQ(tracker.replayed(s, static_cast<double>(s)), kApply);
  EXPECT_EQ(tracker.replay_ended(true, at(0)), kDrop);
  EXPECT_EQ(tracker.live(2, 2, at(0)), kDrop);
  EXPECT_EQ(tracker.live(4, 4, at(0)), kReplay);
}

TEST(SequenceTracker, GoesOnWithALossWhenReplayDoesNotHelp) {
  SequenceTracker tracker(true);
  tracker.live(0, 0, at(0));
  EXPECT_EQ(tracker.live(9, 9, at(0)), kReplay);
  EXPECT_EQ(tracker.replayed(6, 6), lost(5));  // older ones are not kept
  EXPECT_EQ(tracker.replayed(7, 7), kApply);
  EXPECT_EQ(tracker.replay_ended(true, at(0)), kDrop);
  EXPECT_EQ(tracker.live(9, 9, at(0)), lost(1));  // was asked for just now
  EXPECT_EQ(tracker.live(11, 11, at(0)), kReplay);
  EXPECT_EQ(tracker.replay_ended(false, at(0)), kDrop);
  EXPECT_EQ(tracker.live(11, 11, at(0)), lost(1));
  EXPECT_EQ(tracker.live(13, 13, at(29)), lost(1));
  EXPECT_EQ(tracker.connected(at(29)), kDrop);
  EXPECT_EQ(tracker.live(15, 15, at(30)), kReplay);
}

TEST(SequenceTracker, NoticesARestartByItsNumbers) {
  for (const bool can_replay : {false, true}) {
    SequenceTracker tracker(can_replay);
    for (uint64_t s = 0; s < 300; ++s) tracker.live(s, static_cast<double>(s), at(0));
    EXPECT_EQ(tracker.live(0, 1000, at(0)), kResetAndApply);
    EXPECT_EQ(tracker.live(1, 1001, at(0)), kApply);
    EXPECT_EQ(tracker.live(0, 2000, at(0)), kResetAndApply);
    EXPECT_EQ(tracker.live(1, 2001, at(0)), kApply);
    // Set back clocks.
    EXPECT_EQ(tracker.live(1, 5, at(0)), can_replay ? kResetAndReplay : kResetAndApply);
  }
}

TEST(SequenceTracker, NoticesARestartOfAMachineWhoseClockWentBack) {
  SequenceTracker tracker(false);
  tracker.live(1000, 1000, at(0));
  EXPECT_EQ(tracker.live(2, 2, at(0)), kResetAndApply);
}

TEST(SequenceTracker, NoticesARestartByTheAnswerToAGap) {
  SequenceTracker tracker(true);
  tracker.live(0, 0, at(0));
  tracker.live(1, 1, at(0));
  EXPECT_EQ(tracker.live(5, 105, at(0)), kReplay);
  EXPECT_EQ(tracker.replayed(1, 101), kResetAndReplay);
  EXPECT_EQ(tracker.replay_from(), 0u);
  for (uint64_t s = 0; s <= 5; ++s)
    EXPECT_EQ(tracker.replayed(s, 100 + static_cast<double>(s)), kApply);
  EXPECT_EQ(tracker.replay_ended(true, at(0)), kDrop);
  EXPECT_EQ(tracker.live(5, 105, at(0)), kDrop);
}

TEST(SequenceTracker, NoticesARestartByAnEmptyAnswer) {
  SequenceTracker tracker(true);
  for (uint64_t s = 0; s < 9; ++s) tracker.live(s, static_cast<double>(s), at(0));
  EXPECT_EQ(tracker.connected(at(1)), kReplay);
  EXPECT_EQ(tracker.replay_from(), 8u);
  EXPECT_EQ(tracker.replay_ended(true, at(1)), (Step{.reset = true, .action = Action::kDrop}));
  EXPECT_EQ(tracker.live(0, 100, at(1)), kApply);
}

/// A publisher with its past, a wire that loses, repeats, delays and reorders, and a follower that
/// does as the tracker says.
class World {
 public:
  World(uint64_t seed, bool can_replay, size_t kept)
      : rng_(seed), tracker_(can_replay), kept_(kept) {}

  struct Message {
    uint64_t life, sequence;
    double published;
  };

  void run(int steps) {
    for (int i = 0; i < steps; ++i) {
      now_ += std::chrono::milliseconds(200);
      const uint64_t dice = rng_.below(1000);
      if (dice < 3) {
        restart();
      } else if (dice < 700) {
        publish();
      } else if (!wire_.empty()) {
        deliver();
      }
    }
    while (!wire_.empty()) deliver();
  }

  /// A fault-free end: everything that comes now arrives, in order.
  void calm(int messages) {
    faults_ = false;
    while (!wire_.empty()) deliver();
    now_ += std::chrono::minutes(1);
    for (int i = 0; i < messages; ++i) {
      publish();
      deliver();
    }
  }

  void publish() {
    clock_ += 1;
    const Message m{life_, past_.size(), clock_};
    past_.push_back(m);
    if (faults_ && rng_.below(50) == 0) return;  // lost
    wire_.push_back(m);
    if (faults_ && rng_.below(50) == 0) wire_.push_back(m);
    if (faults_ && wire_.size() > 1 && rng_.below(50) == 0)
      std::swap(wire_.back(), wire_[wire_.size() - 2]);
  }

  void restart() {
    wire_.clear();  // the connection is gone
    ++life_;
    ++restarts_;
    past_.clear();
    obey(tracker_.connected(now_), {});
  }

  void deliver() {
    const Message m = wire_.front();
    wire_.erase(wire_.begin());
    for (int tries = 0;; ++tries) {
      ASSERT_LT(tries, 4);
      if (!obey(tracker_.live(m.sequence, m.published, now_), m)) return;
    }
  }

  /// Returns whether the live message must be given again.
  bool obey(const Step& step, std::optional<Message> m) {
    note(step, m);
    if (step.action != Action::kReplay) return false;
    for (;;) {
      const bool fails = faults_ && answers_break_ && rng_.below(10) == 0;
      bool again = false;
      const uint64_t from =
          std::max(tracker_.replay_from(), past_.size() > kept_ ? past_.size() - kept_ : 0);
      for (uint64_t s = from; s < past_.size() && !again; ++s) {
        const Step answer = tracker_.replayed(s, past_[s].published);
        note(answer, past_[s]);
        again = answer.action == Action::kReplay;
        if (fails) break;
      }
      if (again) continue;
      note(tracker_.replay_ended(!fails, now_), {});
      return m.has_value();
    }
  }

  void note(const Step& step, std::optional<Message> m) {
    if (step.reset) {
      applied_.clear();
      lost_ = 0;
      ++resets_;
    }
    if (step.action != Action::kApply) {
      EXPECT_EQ(step.lost, 0u);
      return;
    }
    ASSERT_TRUE(m);
    if (!applied_.empty()) {
      ASSERT_GT(m->sequence, applied_.back().sequence);
      ASSERT_EQ(step.lost, m->sequence - applied_.back().sequence - 1);
      if (m->life != applied_.back().life) ++mixed_, unseen_ += step.lost == 0;
    }
    lost_ += step.lost;
    applied_.push_back(*m);
  }

  Rng rng_;
  SequenceTracker tracker_;
  size_t kept_;
  bool faults_ = true, answers_break_ = true;
  TimePoint now_ = at(1000);
  double clock_ = 0;
  uint64_t life_ = 0, restarts_ = 0, resets_ = 0, mixed_ = 0, unseen_ = 0;
  std::vector<Message> past_, wire_, applied_;
  uint64_t lost_ = 0;
};

TEST(SequenceTracker, KnowsEverythingAgainOnceFaultsEndWhenThePastIsKept) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    World world(seed, true, SIZE_MAX);
    world.run(2000);
    world.calm(3);
    if (HasFatalFailure()) return;
    EXPECT_EQ(world.applied_.back().life, world.life_);
    EXPECT_EQ(world.applied_.back().sequence, world.past_.size() - 1);
    if (world.lost_ > 0) continue;  // a failed replay: told, and that is all that can be done
    EXPECT_EQ(world.applied_.size(), world.past_.size());
    EXPECT_EQ(world.mixed_, 0u);
  }
}

TEST(SequenceTracker, LosesNothingWhenThePastIsKeptAndEveryQuestionIsAnswered) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    World world(seed, true, SIZE_MAX);
    world.answers_break_ = false;
    world.run(2000);
    world.calm(3);
    if (HasFatalFailure()) return;
    EXPECT_EQ(world.lost_, 0u);
    EXPECT_EQ(world.applied_.size(), world.past_.size());
  }
}

TEST(SequenceTracker, NeverStepsOverABatchInSilence) {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(seed);
    World world(seed, seed % 2 == 0, 1 + seed % 40);
    world.run(2000);
    world.calm(3);
    if (HasFatalFailure()) return;
    EXPECT_EQ(world.applied_.back().life, world.life_);
    EXPECT_EQ(world.applied_.back().sequence, world.past_.size() - 1);
    EXPECT_LE(world.resets_, world.restarts_);
  }
}

TEST(SequenceTracker, AppliesEachBatchOnceWhenNothingIsLost) {
  SequenceTracker tracker(false);
  Rng rng(7);
  uint64_t applied = 0;
  for (uint64_t s = 0; s < 5000; ++s) {
    EXPECT_EQ(tracker.live(s, static_cast<double>(s), at(0)), kApply);
    ++applied;
    const uint64_t back = rng.below(std::min<uint64_t>(s + 1, 60));
    EXPECT_EQ(tracker.live(s - back, static_cast<double>(s - back), at(0)), kDrop);
  }
  EXPECT_EQ(applied, 5000u);
}

}  // namespace
}  // namespace llmd::kv_events
