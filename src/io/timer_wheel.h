#pragma once

#include "io/loop.h"

#include <array>
#include <bit>
#include <optional>

namespace llmd::io {

/// Hierarchical timer wheel: four levels of 64 slots, 1 ms to a slot at the lowest, 64 times
/// coarser at each next. A timer sits in the level whose span covers its distance and moves down as
/// its time comes near; beyond 4.6 hours it waits in the top level and is sorted again there.
/// `occupied_` has one bit a slot; a bit may be stale after a cancel, and is cleared when seen.
/// Invariant: every armed timer's slot lies ahead of `tick_`, or it is in `due` of advance().
struct Loop::Wheel {
  static constexpr int kLevels = 4;
  static constexpr int kBits = 6;
  static constexpr uint64_t kSlots = 1u << kBits;

  explicit Wheel(TimePoint start) : origin_(start) {}
  ~Wheel();

  void add(Timer& timer, TimePoint at);
  static void remove(Timer& timer);

  /// Fires everything due at `now`, in order of ticks.
  void advance(TimePoint now);
  /// Until the next slot that may hold something due; nothing when no timer is armed.
  std::optional<Nanos> until_next(TimePoint now);

 private:
  uint64_t tick_of(TimePoint at) const {
    return at <= origin_ ? 0 : static_cast<uint64_t>((at - origin_).count() / 1'000'000);
  }
  void place(Timer& timer, uint64_t tick);
  void cascade(int level);
  /// The next tick after tick_ at which a slot of any level is reached; nothing when all are empty.
  std::optional<uint64_t> next_tick();
  static void push(Timer*& head, Timer& timer);

  const TimePoint origin_;
  uint64_t tick_ = 0;  // everything up to and including this tick has fired
  std::array<std::array<Timer*, kSlots>, kLevels> slots_{};
  std::array<uint64_t, kLevels> occupied_{};
};

}  // namespace llmd::io
