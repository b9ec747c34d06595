#include "timer_wheel.h"

#include <algorithm>
#include <utility>

namespace llmd::io {

Loop::Wheel::~Wheel() {
  for (auto& level : slots_)
    for (Timer*& head : level)
      while (head) remove(*head);
}

void Loop::Wheel::push(Timer*& head, Timer& timer) {
  timer.next_ = head;
  timer.link_ = &head;
  if (head) head->link_ = &timer.next_;
  head = &timer;
}

void Loop::Wheel::remove(Timer& timer) {
  *timer.link_ = timer.next_;
  if (timer.next_) timer.next_->link_ = timer.link_;
  timer.next_ = nullptr;
  timer.link_ = nullptr;
  timer.armed_ = false;
}

void Loop::Wheel::add(Timer& timer, TimePoint at) {
  timer.at_ = at;
  timer.armed_ = true;
  // A timer fires at the first tick not before its time, and never in the tick that is being fired.
  place(timer, std::max(tick_of(at + Nanos(999'999)), tick_ + 1));
}

void Loop::Wheel::place(Timer& timer, uint64_t tick) {
  for (int level = 0; level < kLevels; ++level) {
    const int shift = level * kBits;
    const uint64_t distance = (tick >> shift) - (tick_ >> shift);
    if (distance < kSlots || level == kLevels - 1) {
      const uint64_t slot = ((tick_ >> shift) + std::min(distance, kSlots - 1)) % kSlots;
      push(slots_[level][slot], timer);
      occupied_[level] |= uint64_t{1} << slot;
      return;
    }
  }
}

void Loop::Wheel::cascade(int level) {
  const uint64_t slot = (tick_ >> (level * kBits)) % kSlots;
  if (slot == 0 && level + 1 < kLevels) cascade(level + 1);
  occupied_[level] &= ~(uint64_t{1} << slot);
  Timer* timer = std::exchange(slots_[level][slot], nullptr);
  while (timer) {
    Timer* next = timer->next_;
    place(*timer, std::max(tick_of(timer->at_ + Nanos(999'999)), tick_));
    timer = next;
  }
}

std::optional<uint64_t> Loop::Wheel::next_tick() {
  std::optional<uint64_t> best;
  for (int level = 0; level < kLevels; ++level) {
    const int shift = level * kBits;
    const uint64_t base = tick_ >> shift;
    while (occupied_[level]) {
      // Distance 1..64: the current slot is the farthest away, one turn of the wheel.
      const int ahead =
          std::countr_zero(std::rotr(occupied_[level], static_cast<int>((base + 1) % kSlots)));
      const uint64_t slot = (base + 1 + static_cast<uint64_t>(ahead)) % kSlots;
      if (!slots_[level][slot]) {
        occupied_[level] &= ~(uint64_t{1} << slot);
        continue;
      }
      const uint64_t at = (base + 1 + static_cast<uint64_t>(ahead)) << shift;
      if (!best || at < *best) best = at;
      break;
    }
  }
  return best;
}

void Loop::Wheel::advance(TimePoint now) {
  const uint64_t target = tick_of(now);
  while (tick_ < target) {
    const auto next = next_tick();
    if (!next || *next > target) {
      tick_ = target;
      return;
    }
    tick_ = *next;
    if (tick_ % kSlots == 0) cascade(1);
    Timer*& head = slots_[0][tick_ % kSlots];
    while (head) {
      Timer& timer = *head;
      remove(timer);
      auto fire = std::move(timer.fire_);
      timer.fire_ = nullptr;
      fire();
    }
    occupied_[0] &= ~(uint64_t{1} << (tick_ % kSlots));
  }
}

std::optional<Nanos> Loop::Wheel::until_next(TimePoint now) {
  const auto next = next_tick();
  if (!next) return std::nullopt;
  const TimePoint at = origin_ + Nanos(static_cast<int64_t>(*next) * 1'000'000);
  return std::max(at - now, Nanos(0));
}

void Timer::arm(Nanos delay, std::move_only_function<void()> fire) {
  cancel();
  fire_ = std::move(fire);
  loop_->wheel_->add(*this, loop_->clock_.now() + std::max(delay, Nanos(0)));
}

void Timer::cancel() {
  if (!armed_) return;
  Loop::Wheel::remove(*this);
  fire_ = nullptr;
}

}  // namespace llmd::io
