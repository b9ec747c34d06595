#pragma once

#include "base/clock.h"
#include "flow/indexed_heap.h"
#include "flow/outcome.h"
#include "schedule/decision_notes.h"
#include "schedule/request_context.h"

#include <boost/intrusive/set_hook.hpp>

#include <atomic>
#include <compare>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>

namespace llmd::flow {

struct Band;
struct Flow;

inline constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

/// Where a request stands among others: the least goes first. The sequence is that of arrival, so
/// no two are alike.
struct OrderKey {
  int64_t first = 0;
  int64_t tie = 0;
  uint64_t sequence = 0;
  auto operator<=>(const OrderKey&) const = default;
};

/// A request that waits.
///
/// Either the dispatcher finishes it, and its loop then owns it, or its loop abandons it, and the
/// dispatcher then does. One word says which, and whether the waiter is on its way to the
/// dispatcher: it is handed over once to be queued, and once more when it is abandoned later. Who
/// finds it abandoned while taking it from what was handed over deletes it.
///
/// Threading: made by the request's loop; from hand-over until it is finished only the dispatcher
/// touches it.
struct Waiter {
  enum Word : uint8_t { kWaiting = 0, kFinished = 1, kAbandoned = 2, kHanded = 4, kNoted = 8 };

  // What is known of the request. Not changed while it waits.
  std::string fairness_id;
  int64_t bytes = 0;
  int64_t tokens = 0;         // of work: prompt and expected answer
  int64_t prompt_tokens = 0;  // of them
  TimePoint received{};
  TimePoint enqueued{};
  Nanos ttl{0};               // while there are endpoints; 0: none
  int64_t deadline = kNever;  // of its first token, nanoseconds of the clock
  schedule::Signal resume;
  int32_t priority = 0;

  // The dispatcher's.
  uint32_t position = 0;
  uint32_t short_position = kNoPosition;  // in the heap of those with a TTL of their own
  bool seen = false;                      // it has been handed over once

  std::atomic<uint8_t> word{kHanded};

  // How it ended. The loop's once `word` says so.
  Outcome outcome = Outcome::kNotYetFinalized;
  uint64_t reserved = 0;    // of a dispatched one, see Gate
  float retry_after_s = 0;  // 0: not known
  float enqueuing_s = -1;   // until it was in its queue; negative: it never was

  // Why it has to wait. The loop's once `word` has kNoted or kFinished.
  schedule::WaitNote note;

  // The dispatcher's.
  uint64_t sequence = 0;
  Flow* flow = nullptr;  // null: it is in no queue
  Waiter* older = nullptr;
  Waiter* newer = nullptr;
  Waiter* next_handed = nullptr;

  static constexpr uint32_t kNoPosition = UINT32_MAX;
};

/// The requests of one tenant in one band that wait.
struct Flow {
  Flow(Band& in, std::string_view name) : band(in), id(name) {}

  Band& band;
  const std::string id;
  IndexedHeap<OrderKey, Waiter, &Waiter::position> queue;
  int64_t bytes = 0;
  int64_t tokens = 0;
  TimePoint idle_since{};

  bool waiting() const { return !queue.empty(); }
  /// Requires: some request waits.
  const Waiter& head() const { return queue.top(); }
  const OrderKey& head_key() const { return queue.top_key(); }

  // The picker's, while the flow waits.
  boost::intrusive::set_member_hook<> by_id;
  uint32_t rank = 0;
  // The picker's, also while it does not.
  double served = 0;
  std::shared_ptr<void> memory;
};

}  // namespace llmd::flow
