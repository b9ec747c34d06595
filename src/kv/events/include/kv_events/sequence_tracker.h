#pragma once

#include "base/clock.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace llmd::kv_events {

/// Decides for each message of one publisher whether it follows on what was applied, and what must
/// be done first when it does not. Pure: sequence numbers and times in, steps out.
///
/// A publisher numbers its batches without gaps, from 0 or 1, and begins anew when its engine
/// restarts. Whoever missed some can ask it to send all from a number on, as far as it keeps them.
/// Two batches with the same number are the same if they were published at the same moment: that
/// tells a repeated batch from one of a restarted publisher, and every question for missed batches
/// includes the last one known, so that its answer shows whether the publisher is still the same.
///
/// What holds between two resets:
///   1. applied numbers only grow, and each step over some says how many (`lost`);
///   2. all are of one life of the publisher, unless it restarted unseen behind a loss;
///   3. a repeated or late batch changes nothing.
///
/// Threading: one thread.
class SequenceTracker {
 public:
  /// How long after a failed replay none is tried.
  static constexpr Nanos kReplayPause = std::chrono::seconds(30);

  /// What to do with a message: in the order of the members.
  struct Step {
    enum class Action : uint8_t {
      kApply,
      kDrop,    // known already, or too late
      kReplay,  // ask for all from replay_from() on; keep a live message and give it again after
    };
    bool reset = false;  // the publisher began anew: nothing that it said before holds
    uint64_t lost = 0;   // batches that were not seen and will not be
    Action action = Action::kApply;

    bool operator==(const Step&) const = default;
  };

  /// `can_replay`: the publisher answers questions for missed batches.
  explicit SequenceTracker(bool can_replay) : can_replay_(can_replay) {}

  /// The connection stands, for the first time or again. kReplay or kDrop.
  Step connected(TimePoint now);
  /// A message as published; `published` is its batch's time. Requires: not replaying().
  Step live(uint64_t sequence, double published, TimePoint now);

  /// The numbers before this one, as far as they are not known, were not this publisher's.
  void skip_to(uint64_t sequence);

  bool replaying() const { return replaying_; }
  /// The number to ask from; where to go on after a broken answer.
  uint64_t replay_from() const { return check_ ? next_ - 1 : next_; }
  /// A message of the answer. Requires: replaying(). kReplay: drop this answer and ask again.
  Step replayed(uint64_t sequence, double published);
  /// The answer is complete, or given up. A reset may be due; no action.
  Step replay_ended(bool complete, TimePoint now);

 private:
  /// Batches that are compared by their time.
  static constexpr size_t kRemembered = 64;
  struct Seen {
    uint64_t sequence = UINT64_MAX;
    double published = 0;
  };

  bool may_ask(TimePoint now) const { return can_replay_ && !asked_ && now >= pause_until_; }
  const Seen& seen(uint64_t sequence) const { return seen_[sequence % kRemembered]; }
  bool is_of_other_life(uint64_t sequence, double published) const;
  void forget();
  Step ask(bool reset = false);
  Step apply(uint64_t sequence, double published, bool reset = false);

  const bool can_replay_;
  bool started_ = false;  // something was applied since the last reset
  bool replaying_ = false;
  bool check_ = false;  // the answer must begin with the last batch known
  bool holds_ = false;  // the question was for a live message, which waits
  bool asked_ = false;  // that was answered, and the message has yet to be given again
  uint64_t next_ = 0;   // after the last applied
  uint64_t live_ = 0;   // after the last one seen live
  double latest_ = 0;   // publishing time of what was applied
  TimePoint pause_until_{};
  std::array<Seen, kRemembered> seen_{};
};

}  // namespace llmd::kv_events
