#include "flow/controller.h"

#include "controller_gauges.h"

#include "base/log.h"
#include "schedule/stopwatch.h"

#include <algorithm>
#include <array>
#include <utility>

namespace llmd::flow {
namespace {

constexpr Nanos kTellInterval = std::chrono::seconds(1);

}  // namespace

Controller::Controller(const Clock& clock, metric::Registry& metrics, const std::string& pool)
    : clock_(clock),
      metrics_(metrics),
      pool_name_(pool),
      gate_(clock),
      probe_(metrics, pool),
      gauges_(std::make_unique<ControllerGauges>(*this, clock, metrics, pool)) {}

Controller::~Controller() {
  subscription_.reset();
  // The loops are gone: everything that waits is nobody's.
  const MutexLock lock(mutex_);
  std::vector<Waiter*> left;
  for (Waiter* waiter = take_handed(); waiter; waiter = waiter->next_handed)
    if (!waiter->flow) left.push_back(waiter);
  queues_.for_each([&](Waiter& waiter) { left.push_back(&waiter); });
  for (Waiter* waiter : left) delete waiter;
}

void Controller::retire() {
  subscription_.reset();
  gate_.retire();
  const MutexLock lock(mutex_);
  queues_.release_owner();
}

void Controller::attach(Host host) {
  host_ = std::move(host);
}

void Controller::follow(fleet::Fleet& fleet) {
  subscription_ = fleet.subscribe([this](const fleet::SnapshotPtr& pool) { set_pool(pool); });
  set_pool(fleet.snapshot());
}

void Controller::set_pool(fleet::SnapshotPtr pool) {
  gate_.set_pool(std::move(pool));
  made_room();
}

void Controller::configure(Settings settings) {
  const MutexLock lock(mutex_);
  gate_.configure(*settings.detector, *settings.usage, settings.owner);
  queues_.configure(std::move(settings), clock_.now());
  sync_bands();
  made_room();
}

void Controller::provision(std::span<const int32_t> priorities) {
  const MutexLock lock(mutex_);
  queues_.provision(priorities, clock_.now());
  sync_bands();
  made_room();
}

std::shared_ptr<Evictor> Controller::evictor() {
  // Not under mutex_: it registers what is collected, and what is collected takes mutex_.
  std::call_once(evictor_made_,
                 [this] { evictor_ = std::make_shared<Evictor>(metrics_, clock_, pool_name_); });
  return evictor_;
}

void Controller::sync_bands() {
  if (std::exchange(bands_version_, queues_.bands_version()) != queues_.bands_version())
    gate_.set_bands(queues_.bands());
}

// --- request loops

std::optional<uint64_t> Controller::pass(int32_t priority,
                                         const schedule::SaturationDetector& detector,
                                         int64_t prompt_tokens, TimePoint now) {
  if (handed_count_.load(std::memory_order_acquire) != 0 ||
      priority <= top_.load(std::memory_order_relaxed))
    return std::nullopt;
  if (!gate_.refresh(now)) return std::nullopt;
  const BandGate* gate = gate_.find(priority);
  if (!gate) return std::nullopt;
  const uint64_t units = gate_.units(detector, prompt_tokens);
  if (!gate_.reserve(*gate, units)) return std::nullopt;
  return units;
}

void Controller::hand_over(Waiter& waiter) {
  handed_count_.fetch_add(1, std::memory_order_acq_rel);
  push(waiter);
}

void Controller::push(Waiter& waiter) {
  waiter.next_handed = handed_.load(std::memory_order_relaxed);
  while (!handed_.compare_exchange_weak(waiter.next_handed, &waiter, std::memory_order_release,
                                        std::memory_order_relaxed)) {
  }
  wake();
}

bool Controller::abandon(Waiter& waiter) {
  uint8_t word = waiter.word.load(std::memory_order_acquire);
  do {
    if (word & Waiter::kFinished) return false;
  } while (!waiter.word.compare_exchange_weak(word, Waiter::kAbandoned | Waiter::kHanded,
                                              std::memory_order_acq_rel));
  // Otherwise the dispatcher has yet to take it, and may have deleted it by now.
  if (!(word & Waiter::kHanded)) push(waiter);
  return true;
}

void Controller::wake() {
  if (!woken_.exchange(true, std::memory_order_acq_rel) && host_.wake) host_.wake();
}

// --- the dispatcher

void Controller::run() {
  woken_.exchange(false, std::memory_order_acq_rel);
  schedule::Stopwatch stopwatch;
  turn(clock_.now());
  probe_.cycle.observe(stopwatch.lap());
  for (const auto& resume : finished_) resume();
  finished_.clear();
}

void Controller::turn(TimePoint now) {
  const MutexLock lock(mutex_);
  if (queues_.waiting().requests > 0) rate_.pass(now - turned_);
  turned_ = now;
  const uint32_t received = receive(now);
  gate_.renew(now);
  expire(now);
  drain(now);
  collect(now);
  top_.store(queues_.top_priority(), std::memory_order_relaxed);
  waiting_.store(static_cast<size_t>(queues_.waiting().requests), std::memory_order_relaxed);
  handed_count_.fetch_sub(received, std::memory_order_acq_rel);
  plan(now);
}

/// What was handed over, in the order of coming.
Waiter* Controller::take_handed() {
  Waiter* last = handed_.exchange(nullptr, std::memory_order_acquire);
  Waiter* first = nullptr;
  while (last) {
    Waiter* const before = std::exchange(last->next_handed, first);
    first = last;
    last = before;
  }
  return first;
}

/// How many new ones have come. Those that went make room first.
uint32_t Controller::receive(TimePoint now) {
  uint32_t received = 0;
  Waiter* fresh = nullptr;
  Waiter** end = &fresh;
  for (Waiter* waiter = take_handed(); waiter;) {
    Waiter* const next = waiter->next_handed;  // may change once it is no longer on its way
    if (!std::exchange(waiter->seen, true)) ++received;
    const uint8_t word =
        waiter->word.fetch_and(static_cast<uint8_t>(~Waiter::kHanded), std::memory_order_acq_rel);
    if (word & Waiter::kAbandoned) {
      if (waiter->flow) queues_.remove(*waiter, now);
      delete waiter;
    } else {
      *end = waiter;
      end = &waiter->newer;
    }
    waiter = next;
  }
  *end = nullptr;
  while (fresh) arrive(*std::exchange(fresh, fresh->newer), now);
  return received;
}

void Controller::arrive(Waiter& waiter, TimePoint now) {
  const auto ahead = queues_.ahead(waiter, now);
  sync_bands();
  waiter.note = note(waiter, ahead, now);
  waiter.word.fetch_or(Waiter::kNoted, std::memory_order_release);
  if (too_late(waiter, ahead.tokens, now)) return finish(waiter, Outcome::kRejectedDeadline);
  if (queues_.enqueue(waiter, now)) return;
  if (queues_.settings().retry_after) waiter.retry_after_s = until_drained(waiter.priority);
  finish(waiter, gate_.pool_empty() ? Outcome::kRejectedNoEndpoints : Outcome::kRejectedCapacity);
}

/// Why it does not go at once. What comes first in Why is said first.
schedule::WaitNote Controller::note(const Waiter& waiter, const Queues::Ahead& ahead,
                                    TimePoint now) {
  using Why = schedule::WaitNote::Why;
  const Band& band = queues_.band_of(waiter.priority, now);
  const auto flow = band.flows.find(waiter.fairness_id);
  const auto why = [&] {
    mutex_.assume_held();
    if (gate_.pool_empty()) return Why::kNoEndpoint;
    if (!gate_.open(*band.gate)) return band.gate->above ? Why::kHigherCeiling : Why::kCeiling;
    if (queues_.top_priority() > band.priority()) return Why::kHigherWaits;
    if (flow != band.flows.end() && flow->second->waiting()) return Why::kFlowWaits;
    return band.waiting.requests > 0 ? Why::kBandWaits : Why::kOthersCome;
  };
  return {.ahead_in_flow = static_cast<uint32_t>(ahead.in_flow),
          .ahead_in_band = static_cast<uint32_t>(ahead.in_band),
          .expected_s = static_cast<float>(seconds(rate_.time_for(ahead.tokens))),
          .saturation = static_cast<float>(gate_.saturation()),
          .ceiling = static_cast<float>(band.gate->ceiling.load(std::memory_order_relaxed)),
          .why = why()};
}

/// Whether the request could not be started before its deadline, as fast as things go.
bool Controller::too_late(Waiter& waiter, int64_t tokens_ahead, TimePoint now) {
  if (!queues_.settings().refuse_late || waiter.deadline == kNever) return false;
  const Nanos wait = rate_.time_for(tokens_ahead);
  const Nanos left(waiter.deadline - now.time_since_epoch().count());
  if (wait <= left) return false;
  // When the same request, with as much time as it had, could be served.
  const Nanos had(waiter.deadline - waiter.received.time_since_epoch().count());
  waiter.retry_after_s = static_cast<float>(seconds(wait - had));
  return true;
}

/// How long until what waits now at this priority and above has gone, seconds.
float Controller::until_drained(int32_t priority) const {
  int64_t tokens = 0;
  for (const auto& band : queues_.bands())
    if (band->priority() >= priority) tokens += band->waiting.tokens;
  return static_cast<float>(seconds(rate_.time_for(tokens)));
}

void Controller::expire(TimePoint now) {
  const Regime regime = gate_.regime();
  const Outcome outcome = regime.empty ? Outcome::kEvictedNoEndpoints : Outcome::kEvictedTtl;
  queues_.expire(regime, now, kExpiredMost, [&](Waiter& waiter) {
    mutex_.assume_held();
    if (queues_.settings().retry_after) waiter.retry_after_s = until_drained(waiter.priority);
    finish(waiter, outcome);
    ++dropped_[regime.empty];
  });
  tell_dropped(now);
}

/// At most one line in a second.
void Controller::tell_dropped(TimePoint now) {
  const auto total = dropped_[0] + dropped_[1];
  if (total == 0 || now - told_ < kTellInterval) return;
  told_ = now;
  log::info("Flow control request drop summary",
            {{"pool", pool_name_},
             {"total", total},
             {outcome_name(Outcome::kEvictedTtl), dropped_[0]},
             {outcome_name(Outcome::kEvictedNoEndpoints), dropped_[1]}});
  dropped_ = {};
}

void Controller::drain(TimePoint now) {
  const auto& bands = queues_.bands();
  for (size_t i = 0; i < bands.size();) {
    const BandGate& gate = *bands[i]->gate;
    // A band that is shut shuts those below it, even when nothing waits in it.
    if (!gate_.open(gate)) return reclaim(i);
    Waiter* waiter = queues_.first(*bands[i], now);
    if (!waiter) {
      ++i;
      continue;
    }
    waiter->reserved = gate_.units_at_least(*queues_.settings().detector, waiter->prompt_tokens);
    if (!gate_.reserve(gate, waiter->reserved)) return;
    rate_.add(waiter->tokens);
    queues_.dispatch(*waiter, now);
    finish(*waiter, Outcome::kDispatched);
  }
}

/// The bands from `stopped` on are shut: running requests may have to give way to what waits there.
void Controller::reclaim(size_t stopped) {
  const auto& settings = queues_.settings();
  if (!settings.evictor) return;
  const auto reading = gate_.reading();
  std::vector<Claim> claims;
  for (const auto& band : queues_.bands().subspan(stopped)) {
    const auto ceiling =
        std::ranges::find(reading.ceilings, band->priority(), &std::pair<int32_t, double>::first);
    if (ceiling != reading.ceilings.end())
      claims.push_back({.priority = band->priority(),
                        .ceiling = ceiling->second,
                        .waits = band->waiting.requests > 0});
  }
  settings.evictor->reclaim(reading.saturation, claims, settings.eviction_lag);
}

/// Requires: the waiter is in no queue.
void Controller::finish(Waiter& waiter, Outcome outcome) {
  schedule::Signal resume = std::move(waiter.resume);
  const uint64_t reserved = waiter.reserved;
  waiter.outcome = outcome;
  uint8_t word = waiter.word.load(std::memory_order_relaxed) & Waiter::kNoted;
  if (waiter.word.compare_exchange_strong(word, Waiter::kFinished, std::memory_order_acq_rel))
    finished_.push_back(std::move(resume));
  else if (outcome == Outcome::kDispatched)
    gate_.settle(reserved);  // abandoned: it is handed over for deletion
}

void Controller::collect(TimePoint now) {
  if (now - collected_ < kCollectInterval) return;
  collected_ = now;
  queues_.collect(now);
  sync_bands();
  probe_.collect(now, Queues::kFlowIdle);
}

/// When to look again, unless woken: at the next expiry, and at the next reading of the pool, whose
/// load may change without notice. While nothing waits, only to clean up.
void Controller::plan(TimePoint now) {
  if (!host_.alarm) return;
  Nanos delay = kCollectInterval;
  if (queues_.waiting().requests > 0) {
    const Regime regime = gate_.regime();
    const TimePoint expiry = queues_.next_expiry(regime);
    if (expiry != TimePoint::max()) delay = std::min(delay, expiry - now);
    if (!regime.empty) delay = std::min(delay, gate_.period());
  }
  if (dropped_ != decltype(dropped_){}) delay = std::min(delay, kTellInterval);
  host_.alarm(std::max(delay, Gate::kPeriod));
}

}  // namespace llmd::flow
