#pragma once

#include "base/clock.h"
#include "base/limits.h"
#include "fleet/endpoint.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

namespace llmd::plugins {

/// How fast each endpoint is compared with the fleet, learnt from answers; and what requests of
/// this fleet are like.
///
/// Samples move an average by a tenth, and count for at most twice or half of what is known, so a
/// single odd one does little. Small differences count as none, else noise would decide where idle
/// endpoints are alike. What was learnt fades: an endpoint that was slow and gets no requests for
/// it is tried again.
/// Threading: any, without locks. Two loops that learn at the same moment may lose a sample.
class SpeedBook final : public fleet::MembershipListener {
 public:
  enum Kind : size_t { kPrefill, kDecode, kKinds };

  /// Seconds an endpoint took per token, of the prompt or of the answer. Requires: seconds > 0.
  void learn(Kind kind, const fleet::Endpoint& endpoint, double seconds_per_token, TimePoint now) {
    move(fleet_[kind], seconds_per_token);
    Entry& entry = entries_[endpoint.slot()];
    if (entry.generation.load(std::memory_order_acquire) != endpoint.generation()) return;
    move(entry.seconds[kind], seconds_per_token);
    entry.learnt[kind].store(now.time_since_epoch().count(), std::memory_order_relaxed);
  }

  /// How many times as long as on the fleet's average a token takes; 1 when nothing is known. What
  /// was learnt `fade` ago counts half. Requires: fade > 0.
  double slowness(Kind kind, const fleet::Endpoint& endpoint, TimePoint now, Nanos fade) const {
    const Entry& entry = entries_[endpoint.slot()];
    const double seconds = entry.seconds[kind].load(std::memory_order_relaxed);
    if (seconds == 0 || entry.generation.load(std::memory_order_relaxed) != endpoint.generation())
      return 1;
    const double ratio =
        std::clamp(seconds / fleet_[kind].load(std::memory_order_relaxed), 1 / kMost, kMost);
    if (ratio > 1 / kAlike && ratio < kAlike) return 1;
    const int64_t learnt = entry.learnt[kind].load(std::memory_order_relaxed);
    const auto age =
        static_cast<double>(std::max<int64_t>(0, now.time_since_epoch().count() - learnt));
    return 1 + (ratio - 1) / (1 + age / static_cast<double>(fade.count()));
  }

  /// Tokens that requests have on average: to process, and in their answers. 0: not known yet.
  void learn_request(double uncached_tokens) { move(uncached_, std::max(1.0, uncached_tokens)); }
  void learn_answer(double tokens) { move(output_, std::max(1.0, tokens)); }
  double uncached_tokens() const { return uncached_.load(std::memory_order_relaxed); }
  double output_tokens() const { return output_.load(std::memory_order_relaxed); }

  void on_added(const fleet::EndpointPtr& endpoint) override {
    Entry& entry = entries_[endpoint->slot()];
    if (entry.generation.load(std::memory_order_relaxed) == endpoint->generation()) return;
    for (auto& seconds : entry.seconds) seconds.store(0, std::memory_order_relaxed);
    entry.generation.store(endpoint->generation(), std::memory_order_release);
  }

 private:
  static constexpr double kMost = 4;  // no endpoint counts as slower or faster than this
  static constexpr double kAlike = 1.25;
  static constexpr double kShare = 0.1;

  using Average = std::atomic<double>;
  struct Entry {
    std::atomic<uint64_t> generation{0};
    std::array<Average, kKinds> seconds{};
    std::array<std::atomic<int64_t>, kKinds> learnt{};
  };

  static void move(Average& average, double sample) {
    const double before = average.load(std::memory_order_relaxed);
    const double step = std::clamp(sample, before / 2, before * 2) - before;
    average.store(before == 0 ? sample : before + kShare * step, std::memory_order_relaxed);
  }

  std::array<Average, kKinds> fleet_{};
  Average uncached_{0};
  Average output_{0};
  std::array<Entry, limits::kEndpointsMax> entries_{};  // by slot
};

}  // namespace llmd::plugins
