#pragma once

#include "base/keyed_hash.h"
#include "flow/settings.h"
#include "flow/waiter.h"

#include <boost/unordered/unordered_flat_map.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace llmd::flow {

/// Whether the pool has endpoints, and since when that is so.
struct Regime {
  bool empty = false;
  TimePoint since{};
};

/// What waits, or may.
struct Usage {
  int64_t bytes = 0;
  int64_t requests = 0;
  int64_t tokens = 0;

  void add(const Waiter& waiter, int64_t sign) {
    bytes += sign * waiter.bytes;
    requests += sign;
    tokens += sign * waiter.tokens;
  }
  /// Whether there is room for one more.
  bool admits(const Waiter& waiter, const Limits& limits) const {
    return (limits.bytes == 0 || bytes + waiter.bytes <= limits.bytes) &&
           (limits.requests == 0 || requests + 1 <= limits.requests) &&
           (limits.tokens == 0 || tokens + waiter.tokens <= limits.tokens);
  }
};

struct BandGate;

/// The requests of one priority that wait.
struct Band {
  BandSettings settings;
  bool listed = false;   // the configuration has it
  bool desired = false;  // some objective has its priority
  Usage waiting;
  boost::unordered_flat_map<std::string, std::unique_ptr<Flow>, KeyedHash, std::equal_to<>> flows;
  std::unique_ptr<FlowPicker> picker;  // goes before the flows that it links
  size_t active = 0;                   // flows of which something waits
  TimePoint idle_since{};
  BandGate* gate = nullptr;  // by which they leave

  int32_t priority() const { return settings.priority; }
};

/// All requests that wait: bands by priority, in each a queue per flow, and beside them their order
/// of expiry.
///
/// Invariants: 1. a waiter is in the queue of its flow, in the list by age and, with a TTL of its
/// own, in the heap of short ones, or in none of them. 2. The sums of a band and of all are those
/// of what is queued. 3. A flow is with its band's picker exactly while something of it waits.
///
/// Threading: one thread at a time. Cost: enqueue, dispatch and removal are O(log n) and allocate
/// only for a new flow or a queue that grows; expire() costs what it takes out.
class Queues {
 public:
  /// Idle flows and bands are kept this long. At most kIdleFlowsMax a band are kept at all.
  static constexpr Nanos kFlowIdle = std::chrono::minutes(5);
  static constexpr Nanos kBandIdle = std::chrono::minutes(10);
  static constexpr size_t kIdleFlowsMax = 10'000;
  static constexpr size_t kBandsMax = 256;

  /// Requires: settings before anything else. What waits keeps its place, by the new policies.
  void configure(Settings settings, TimePoint now);
  const Settings& settings() const { return settings_; }
  /// Lets go of the policies: nothing comes or goes any more.
  void release_owner() { settings_.owner.reset(); }
  /// The priorities that objectives have: their bands exist. Bands that nobody wants go when idle.
  void provision(std::span<const int32_t> priorities, TimePoint now);
  /// Drops flows and bands that have been idle for long.
  void collect(TimePoint now);

  /// Descending priority.
  std::span<const std::unique_ptr<Band>> bands() const { return bands_; }
  /// The band of a priority, made if need be; when there are too many, the next lower one, or the
  /// lowest.
  Band& band_of(int32_t priority, TimePoint now);
  /// Changes with the set of bands.
  uint64_t bands_version() const { return bands_version_; }
  const Usage& waiting() const { return waiting_; }
  /// The highest priority of which something waits; INT64_MIN: nothing does.
  int64_t top_priority() const;

  /// False: there is no room. `now` is the time of arrival at the dispatcher.
  bool enqueue(Waiter& waiter, TimePoint now);
  /// Requires: it is queued.
  void remove(Waiter& waiter, TimePoint now);

  /// The request of `band` that goes next; null: none waits.
  Waiter* first(Band& band, TimePoint now);
  /// Takes out what first() returned.
  void dispatch(Waiter& waiter, TimePoint now);

  /// Takes out, in order of age, whatever has waited too long by `now`, at most so many, and calls
  /// `expired(Waiter&)`.
  template <class Expired>
  void expire(const Regime& regime, TimePoint now, size_t most, Expired expired) {
    for (Waiter* waiter; most > 0 && (waiter = overdue(regime, now)); --most) {
      remove(*waiter, now);
      expired(*waiter);
    }
  }
  /// When the next one expires; TimePoint::max(): none does.
  TimePoint next_expiry(const Regime& regime) const;

  /// What goes before a request that comes now. An estimate: of long queues a part is looked at.
  struct Ahead {
    int64_t tokens = 0;   // of work, in its band and above
    int64_t in_flow = 0;  // requests
    int64_t in_band = 0;
  };
  Ahead ahead(const Waiter& waiter, TimePoint now);

  /// All of them, oldest first.
  template <class Visit>
  void for_each(Visit visit) const {
    for (Waiter* w = oldest_; w; w = w->newer) visit(*w);
  }

 private:
  struct Sample;
  Sample sample(const Band& band, const OrderKey& key) const;
  Band& make_band(int32_t priority, TimePoint now);
  Flow& flow_of(Band& band, const std::string& id);
  void link(Waiter& waiter);
  void unlink(Waiter& waiter);
  void join(Band& band, Flow& flow, Waiter& waiter);
  void leave(Band& band, Flow& flow, Waiter& waiter, TimePoint now);
  OrderKey key_of(const Band& band, const Waiter& waiter) const;
  bool has_short_ttl(const Waiter& waiter) const;
  TimePoint expiry(const Waiter& waiter, const Regime& regime, Nanos budget) const;
  Waiter* overdue(const Regime& regime, TimePoint now);
  void rebuild(Band& band);
  template <class Useless>
  void drop_bands(Useless useless) {
    if (std::erase_if(bands_, useless) > 0) ++bands_version_;
  }

  Settings settings_;
  std::vector<std::unique_ptr<Band>> bands_;
  uint64_t bands_version_ = 0;
  Usage waiting_;
  uint64_t sequence_ = 0;
  Waiter* oldest_ = nullptr;
  Waiter* newest_ = nullptr;
  IndexedHeap<TimePoint, Waiter, &Waiter::short_position> short_;  // by enqueued + ttl
};

}  // namespace llmd::flow
