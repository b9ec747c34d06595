#pragma once

#include "base/limits.h"
#include "fleet/endpoint.h"

#include <array>
#include <atomic>
#include <cstdint>

namespace llmd::plugins {

/// Remembers when each endpoint last had its turn, so that equals take turns: whoever picks the
/// endpoint with the lowest turn and takes it gives n equal endpoints one pick each in n picks.
///
/// A newcomer has turn 0: it comes first once and then queues behind the others like everyone.
/// A word per slot holds the turn and the low bits of the generation that it belongs to, so the
/// successor in a slot is a newcomer.
/// Threading: any, without locks. A pick that was overtaken fails to take and is done over, so
/// loops that pick at the same moment do not pick the same endpoint.
class Rotation {
 public:
  struct Seen {
    uint64_t word = 0;
    uint64_t turn = 0;
  };

  Seen see(const fleet::Endpoint& endpoint) const {
    const uint64_t word = words_[endpoint.slot()].load(std::memory_order_relaxed);
    return {word, mark(endpoint) == (word & kMarkMask) ? word >> kMarkBits : 0};
  }

  /// Makes it the endpoint's turn now and returns the turn's number; 0 when someone did so since
  /// `seen`.
  uint64_t take(const fleet::Endpoint& endpoint, Seen seen) {
    const uint64_t turn = turns_.fetch_add(1, std::memory_order_relaxed) + 1;
    const bool taken = words_[endpoint.slot()].compare_exchange_strong(
        seen.word, turn << kMarkBits | mark(endpoint), std::memory_order_relaxed);
    return taken ? turn : 0;
  }

 private:
  // 44 bits of turns last for months at a million picks a second; 20 bits of generation repeat
  // after a million replacements, and then cost one endpoint its first place.
  static constexpr unsigned kMarkBits = 20;
  static constexpr uint64_t kMarkMask = (uint64_t{1} << kMarkBits) - 1;

  static uint64_t mark(const fleet::Endpoint& endpoint) {
    return endpoint.generation() & kMarkMask;
  }

  std::atomic<uint64_t> turns_{0};
  std::array<std::atomic<uint64_t>, limits::kEndpointsMax> words_{};
};

}  // namespace llmd::plugins
