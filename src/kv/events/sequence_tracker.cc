#include "kv_events/sequence_tracker.h"

#include "base/check.h"

#include <algorithm>

namespace llmd::kv_events {

using Step = SequenceTracker::Step;
using Action = Step::Action;

void SequenceTracker::forget() {
  started_ = false;
  check_ = false;
  asked_ = false;
  next_ = live_ = 0;
  latest_ = 0;
  seen_.fill({});
}

Step SequenceTracker::ask(bool reset) {
  replaying_ = true;
  check_ = started_;
  return {.reset = reset, .lost = 0, .action = Action::kReplay};
}

Step SequenceTracker::apply(uint64_t sequence, double published, bool reset) {
  const uint64_t lost = started_ ? sequence - next_ : 0;
  started_ = true;
  next_ = sequence + 1;
  latest_ = std::max(latest_, published);
  seen_[sequence % kRemembered] = {sequence, published};
  return {.reset = reset, .lost = lost, .action = Action::kApply};
}

/// Of a number that is below next_.
bool SequenceTracker::is_of_other_life(uint64_t sequence, double published) const {
  if (seen(sequence).sequence == sequence) return seen(sequence).published != published;
  // Never applied, or long ago. Nothing that is so far behind what was live is merely late, even
  // if the clock of the publisher's machine was set back meanwhile.
  return published > latest_ || sequence + kRemembered < live_;
}

Step SequenceTracker::connected(TimePoint now) {
  if (replaying_ || !may_ask(now)) return {.action = Action::kDrop};
  holds_ = false;
  return ask();
}

Step SequenceTracker::live(uint64_t sequence, double published, TimePoint now) {
  CHECK(!replaying_);
  bool reset = false;
  if (started_ && sequence < next_) {
    if (!is_of_other_life(sequence, published)) {
      live_ = std::max(live_, sequence + 1);
      asked_ = false;
      return {.action = Action::kDrop};
    }
    forget();
    pause_until_ = {};
    reset = true;
  }
  const bool follows = started_ ? sequence == next_ : sequence == 0;
  if (!follows && may_ask(now)) {
    holds_ = true;
    return ask(reset);
  }
  asked_ = holds_ = false;
  live_ = sequence + 1;
  return apply(sequence, published, reset);
}

void SequenceTracker::skip_to(uint64_t sequence) {
  if (started_) next_ = std::max(next_, sequence);
}

Step SequenceTracker::replayed(uint64_t sequence, double published) {
  CHECK(replaying_);
  if (check_) {
    check_ = false;
    if (sequence == next_ - 1) {
      if (seen(sequence).published == published) return {.action = Action::kDrop};
      forget();
      return ask(true);
    }
  }
  if (sequence == UINT64_MAX || (started_ && sequence < next_)) return {.action = Action::kDrop};
  return apply(sequence, published);
}

Step SequenceTracker::replay_ended(bool complete, TimePoint now) {
  CHECK(replaying_);
  replaying_ = false;
  Step step{.action = Action::kDrop};
  if (!complete) {
    pause_until_ = now + kReplayPause;
  } else if (check_) {  // it no longer knows a batch that was its last, or one of them
    forget();
    step.reset = true;
  } else {
    asked_ = holds_;
  }
  check_ = false;
  return step;
}

}  // namespace llmd::kv_events
