#include "flow/queues.h"

#include "base/check.h"

#include <algorithm>
#include <limits>

namespace llmd::flow {
namespace {

/// How much longer than its TTL a request may wait because the pool went and came back.
constexpr Nanos kGrace = std::chrono::seconds(2);
/// Requests, and flows, that ahead() looks at; beyond it extrapolates.
constexpr int64_t kLookedAt = 64;

bool descending(const std::unique_ptr<Band>& band, int32_t priority) {
  return band->priority() > priority;
}

}  // namespace

OrderKey Queues::key_of(const Band& band, const Waiter& waiter) const {
  OrderKey key = band.settings.ordering->key(waiter);
  key.sequence = waiter.sequence;
  return key;
}

// --- bands

Band& Queues::make_band(int32_t priority, TimePoint now) {
  const auto at = std::lower_bound(bands_.begin(), bands_.end(), priority, descending);
  Band& band = **bands_.insert(at, std::make_unique<Band>());
  band.settings = settings_.band(priority);
  band.listed = settings_.lists(priority);
  band.picker = band.settings.fairness->make_picker();
  band.idle_since = now;
  ++bands_version_;
  return band;
}

Band& Queues::band_of(int32_t priority, TimePoint now) {
  const auto at = std::lower_bound(bands_.begin(), bands_.end(), priority, descending);
  if (at != bands_.end() && (*at)->priority() == priority) return **at;
  if (bands_.size() < kBandsMax) return make_band(priority, now);
  return at != bands_.end() ? **at : *bands_.back();
}

void Queues::configure(Settings settings, TimePoint now) {
  const auto former = std::move(settings_.owner);  // its policies are in use until the end
  settings_ = std::move(settings);
  for (auto& band : bands_) {
    band->settings = settings_.band(band->priority());
    band->listed = settings_.lists(band->priority());
    rebuild(*band);
  }
  for (const auto& listed : settings_.bands) band_of(listed.priority, now);
  short_.clear();
  for_each([this](Waiter& waiter) {
    waiter.short_position = Waiter::kNoPosition;
    if (has_short_ttl(waiter)) short_.push(waiter.enqueued + waiter.ttl, waiter);
  });
}

/// Puts the band's flows under its policies of now.
void Queues::rebuild(Band& band) {
  band.picker = band.settings.fairness->make_picker();
  for (auto& [id, flow] : band.flows) {
    flow->queue.rekey([&](const Waiter& waiter) { return key_of(band, waiter); });
    flow->served = 0;
    flow->memory.reset();
    if (flow->waiting()) band.picker->add(*flow);
  }
}

void Queues::provision(std::span<const int32_t> priorities, TimePoint now) {
  for (auto& band : bands_)
    band->desired = std::ranges::find(priorities, band->priority()) != priorities.end();
  for (const int32_t priority : priorities)
    if (Band& band = band_of(priority, now); band.priority() == priority) band.desired = true;
  drop_bands(
      [](const auto& band) { return !band->listed && !band->desired && band->flows.empty(); });
}

void Queues::collect(TimePoint now) {
  for (auto& band : bands_) {
    boost::unordered::erase_if(band->flows, [&](const auto& entry) {
      return !entry.second->waiting() && now - entry.second->idle_since >= kFlowIdle;
    });
    if (!band->flows.empty()) band->idle_since = now;
  }
  drop_bands([&](const auto& band) {
    return !band->listed && !band->desired && band->flows.empty() &&
           now - band->idle_since >= kBandIdle;
  });
}

int64_t Queues::top_priority() const {
  for (const auto& band : bands_)
    if (band->waiting.requests > 0) return band->priority();
  return std::numeric_limits<int64_t>::min();
}

// --- coming and going

Flow& Queues::flow_of(Band& band, const std::string& id) {
  const auto found = band.flows.find(id);
  if (found != band.flows.end()) return *found->second;
  return *band.flows.emplace(id, std::make_unique<Flow>(band, id)).first->second;
}

bool Queues::enqueue(Waiter& waiter, TimePoint now) {
  Band& band = band_of(waiter.priority, now);
  if (!waiting_.admits(waiter, settings_.limits) ||
      !band.waiting.admits(waiter, band.settings.limits))
    return false;
  if (waiter.sequence == 0) waiter.sequence = ++sequence_;
  waiter.enqueuing_s = static_cast<float>(seconds(now - waiter.enqueued));
  join(band, flow_of(band, waiter.fairness_id), waiter);
  link(waiter);
  return true;
}

void Queues::join(Band& band, Flow& flow, Waiter& waiter) {
  const bool first_one = !flow.waiting();
  waiter.flow = &flow;
  flow.queue.push(key_of(band, waiter), waiter);
  flow.bytes += waiter.bytes;
  flow.tokens += waiter.tokens;
  band.waiting.add(waiter, 1);
  waiting_.add(waiter, 1);
  if (first_one) {
    ++band.active;
    band.picker->add(flow);
  } else if (&flow.head() == &waiter) {
    band.picker->head_changed(flow);
  }
}

void Queues::leave(Band& band, Flow& flow, Waiter& waiter, TimePoint now) {
  const bool was_first = &flow.head() == &waiter;
  flow.queue.remove(waiter);
  waiter.flow = nullptr;
  flow.bytes -= waiter.bytes;
  flow.tokens -= waiter.tokens;
  band.waiting.add(waiter, -1);
  waiting_.add(waiter, -1);
  if (flow.waiting()) {
    if (was_first) band.picker->head_changed(flow);
    return;
  }
  band.picker->remove(flow);
  --band.active;
  flow.idle_since = now;
  if (band.flows.size() - band.active > kIdleFlowsMax) band.flows.erase(flow.id);
}

void Queues::remove(Waiter& waiter, TimePoint now) {
  leave(waiter.flow->band, *waiter.flow, waiter, now);
  unlink(waiter);
}

Waiter* Queues::first(Band& band, TimePoint now) {
  if (band.waiting.requests == 0) return nullptr;
  const Flow* flow = band.picker->pick(now);
  return flow ? const_cast<Waiter*>(&flow->head()) : nullptr;
}

void Queues::dispatch(Waiter& waiter, TimePoint now) {
  waiter.flow->band.picker->dispatched(*waiter.flow, waiter);
  remove(waiter, now);
}

// --- expiry

bool Queues::has_short_ttl(const Waiter& waiter) const {
  return waiter.ttl > Nanos(0) && (settings_.ttl == Nanos(0) || waiter.ttl < settings_.ttl);
}

/// By age: most come in that order.
void Queues::link(Waiter& waiter) {
  Waiter* before = newest_;
  while (before && before->enqueued > waiter.enqueued) before = before->older;
  waiter.older = before;
  waiter.newer = before ? before->newer : oldest_;
  (waiter.older ? waiter.older->newer : oldest_) = &waiter;
  (waiter.newer ? waiter.newer->older : newest_) = &waiter;
  if (has_short_ttl(waiter)) short_.push(waiter.enqueued + waiter.ttl, waiter);
}

void Queues::unlink(Waiter& waiter) {
  (waiter.older ? waiter.older->newer : oldest_) = waiter.newer;
  (waiter.newer ? waiter.newer->older : newest_) = waiter.older;
  if (waiter.short_position != Waiter::kNoPosition) short_.remove(waiter);
  waiter.short_position = Waiter::kNoPosition;
}

/// The clock starts anew when the pool loses its last endpoint or gets its first, but not for ever.
TimePoint Queues::expiry(const Waiter& waiter, const Regime& regime, Nanos budget) const {
  TimePoint at = TimePoint::max();
  if (budget > Nanos(0)) at = std::max(waiter.enqueued, regime.since) + budget;
  if (settings_.ttl > Nanos(0) && settings_.no_endpoint_ttl > Nanos(0))
    at =
        std::min(at, waiter.enqueued + std::max(settings_.ttl, settings_.no_endpoint_ttl) + kGrace);
  return at;
}

TimePoint Queues::next_expiry(const Regime& regime) const {
  TimePoint at = TimePoint::max();
  if (oldest_)
    at = expiry(*oldest_, regime, regime.empty ? settings_.no_endpoint_ttl : settings_.ttl);
  if (!regime.empty && !short_.empty())
    at = std::min(at, expiry(short_.top(), regime, short_.top().ttl));
  return at;
}

Waiter* Queues::overdue(const Regime& regime, TimePoint now) {
  if (next_expiry(regime) > now) return nullptr;
  if (!regime.empty && !short_.empty() && expiry(short_.top(), regime, short_.top().ttl) <= now)
    return &short_.top();
  return oldest_;
}

// --- estimates

/// Some of the requests that wait, and how many of them go before a key.
struct Queues::Sample {
  int64_t seen = 0;
  int64_t before = 0;

  /// `most`: requests to look at.
  void look(const Flow& flow, const OrderKey& key, int64_t most) {
    flow.queue.for_each_key(static_cast<size_t>(most), [&](const OrderKey& other) {
      ++seen;
      if (other < key) ++before;
    });
  }
  /// The same part of `all`.
  int64_t part_of(int64_t all) const {
    return seen > 0 ? static_cast<int64_t>(static_cast<double>(all) * static_cast<double>(before) /
                                           static_cast<double>(seen))
                    : all;
  }
};

Queues::Ahead Queues::ahead(const Waiter& waiter, TimePoint now) {
  Band& band = band_of(waiter.priority, now);
  Ahead ahead;
  for (const auto& other : bands_)
    if (other->priority() > band.priority()) ahead.tokens += other->waiting.tokens;
  OrderKey key = key_of(band, waiter);
  if (waiter.sequence == 0) key.sequence = sequence_ + 1;
  const auto found = band.flows.find(waiter.fairness_id);
  const Flow* flow = found == band.flows.end() ? nullptr : found->second.get();
  Sample own;
  if (flow) own.look(*flow, key, kLookedAt);
  const int64_t queued = flow ? static_cast<int64_t>(flow->queue.size()) : 0;
  const int64_t work = flow ? flow->tokens : 0;
  ahead.in_flow = own.part_of(queued);
  if (!band.settings.fairness->by_flow()) {
    const Sample all = sample(band, key);
    ahead.in_band = all.part_of(band.waiting.requests);
    ahead.tokens += all.part_of(band.waiting.tokens);
    return ahead;
  }
  // The others go on by turns with this flow: each as far as it, if it has as much.
  const int64_t before = own.part_of(work);
  const auto others = static_cast<int64_t>(band.active) - (queued > 0 ? 1 : 0);
  ahead.in_band =
      ahead.in_flow + std::min(band.waiting.requests - queued, others * (ahead.in_flow + 1));
  ahead.tokens += before + std::min(band.waiting.tokens - work, others * (before + waiter.tokens));
  return ahead;
}

/// Of some flows each as much as is its part of the band. Idle ones are among them.
Queues::Sample Queues::sample(const Band& band, const OrderKey& key) const {
  Sample sample;
  int64_t flows = 0;
  for (const auto& [id, flow] : band.flows) {
    if (sample.seen >= kLookedAt || ++flows > kLookedAt) break;
    const auto queued = static_cast<int64_t>(flow->queue.size());
    sample.look(*flow, key, 1 + kLookedAt * queued / (band.waiting.requests + 1));
  }
  return sample;
}

}  // namespace llmd::flow
