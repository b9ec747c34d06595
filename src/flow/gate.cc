#include "flow/gate.h"

#include "fleet/ejection.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace llmd::flow {
namespace {

/// Readings take at most one part in so many of the time: while requests are let in by their own
/// loops, and while the dispatcher has nothing better to do.
constexpr int64_t kPartOfLoops = 20;
constexpr int64_t kPartOfDispatcher = 4;
/// Beyond this a band is open without a limit that anyone reaches.
constexpr double kRoomMost = 1e6;

struct Roles {
  bool prefill = false;
  bool decode = false;
};

/// Which stages an endpoint works in, by its label (spec 03 §4.2).
Roles roles_of(const fleet::Endpoint& endpoint) {
  const std::string* role = endpoint.label("llm-d.ai/role");
  if (!role || role->empty() || *role == "decode") return {.decode = true};
  if (*role == "prefill" || *role == "encode-prefill") return {.prefill = true};
  const bool both =
      *role == "prefill-decode" || *role == "both" || *role == "encode-prefill-decode";
  return {.prefill = both, .decode = both};
}

int64_t ticks(TimePoint t) {
  return t.time_since_epoch().count();
}

uint64_t to_units(double saturation) {
  return static_cast<uint64_t>(std::ceil(saturation * static_cast<double>(Gate::kUnit)));
}

}  // namespace

void Gate::configure(const schedule::SaturationDetector& detector, const UsageLimitPolicy& usage,
                     std::shared_ptr<const void> owner) {
  const MutexLock lock(mutex_);
  detector_ = &detector;
  usage_ = &usage;
  std::swap(owner_, owner);
  expire();
}

void Gate::retire() {
  const MutexLock lock(mutex_);
  detector_ = nullptr;
  pool_.reset();
  owner_.reset();
  for (const auto& gate : owned_)
    gate->limit.store(settled_.load(std::memory_order_relaxed), std::memory_order_relaxed);
}

void Gate::set_pool(fleet::SnapshotPtr pool) {
  const MutexLock lock(mutex_);
  pool_ = std::move(pool);
  if (pool_->endpoints.empty() != regime_.empty)
    regime_ = {.empty = pool_->endpoints.empty(), .since = clock_.now()};
  sort_stages();
  expire();
}

void Gate::sort_stages() {
  prefill_.clear();
  decode_.clear();
  const auto& endpoints = pool_->endpoints;
  for (uint32_t i = 0; i < endpoints.size(); ++i) {
    const Roles roles = roles_of(*endpoints[i]);
    if (roles.prefill) prefill_.push_back(i);
    if (roles.decode) decode_.push_back(i);
  }
  pool_size_.store(static_cast<uint32_t>(endpoints.size()), std::memory_order_relaxed);
}

void Gate::set_bands(std::span<const std::unique_ptr<Band>> bands) {
  const MutexLock lock(mutex_);
  bands_.clear();
  priorities_.clear();
  for (const auto& band : bands) {
    BandGate* gate = find(band->priority());
    const size_t count = gate_count_.load(std::memory_order_relaxed);
    if (!gate && count < gates_.size()) {
      gate = owned_.emplace_back(std::make_unique<BandGate>(band->priority())).get();
      gates_[count].store(gate, std::memory_order_relaxed);
      gate_count_.store(count + 1, std::memory_order_release);
    }
    // With too many priorities in a process's life, the last ones share a gate.
    band->gate = gate ? gate : bands_.empty() ? owned_.front().get() : bands_.back();
    if (!gate) continue;
    bands_.push_back(gate);
    priorities_.push_back(band->priority());
  }
  for (const auto& gate : owned_)
    if (std::ranges::find(bands_, gate.get()) == bands_.end())
      gate->limit.store(settled_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  expire();
}

BandGate* Gate::find(int32_t priority) const {
  const size_t count = gate_count_.load(std::memory_order_acquire);
  for (size_t i = 0; i < count; ++i) {
    BandGate* gate = gates_[i].load(std::memory_order_relaxed);
    if (gate->priority == priority) return gate;
  }
  return nullptr;
}

uint64_t Gate::units(const schedule::SaturationDetector& detector, int64_t prompt_tokens) const {
  const uint32_t endpoints = stage_size_.load(std::memory_order_relaxed);
  return endpoints == 0 ? 0 : to_units(std::min(detector.step(endpoints, prompt_tokens), 1.0));
}

uint64_t Gate::units_at_least(const schedule::SaturationDetector& detector,
                              int64_t prompt_tokens) const {
  const uint64_t told = units(detector, prompt_tokens);
  if (told > 0) return told;
  const uint32_t endpoints = stage_size_.load(std::memory_order_relaxed);
  return kUnit / (kBatchPerEndpoint * std::max(endpoints, 1u));
}

bool Gate::open(const BandGate& gate) const {
  return static_cast<int64_t>(gate.limit.load(std::memory_order_relaxed) -
                              let_in_.load(std::memory_order_relaxed)) > 0;
}

bool Gate::reserve(const BandGate& gate, uint64_t units) {
  uint64_t now = let_in_.load(std::memory_order_relaxed);
  do {
    if (static_cast<int64_t>(gate.limit.load(std::memory_order_relaxed) - now) <= 0) return false;
  } while (!let_in_.compare_exchange_weak(now, now + units, std::memory_order_acq_rel,
                                          std::memory_order_relaxed));
  return true;
}

bool Gate::refresh(TimePoint now) {
  const int64_t age = ticks(now) - read_at_.load(std::memory_order_relaxed);
  if (age < period_.load(std::memory_order_relaxed)) return true;
  if (!mutex_.try_lock()) return age < kTooOld.count();
  const bool read = read_locked(now);
  mutex_.unlock();
  return read;
}

void Gate::renew(TimePoint now) {
  const int64_t age = ticks(now) - read_at_.load(std::memory_order_relaxed);
  if (age < pause_.load(std::memory_order_relaxed)) return;
  const MutexLock lock(mutex_);
  read_locked(now);
}

double Gate::of(const std::vector<uint32_t>* stage, bool without_ejected, Measure measure,
                TimePoint now) {
  members_.clear();
  const auto add = [&](const schedule::Candidate& one) {
    mutex_.assume_held();
    if (!without_ejected || !fleet::is_ejected(*one.endpoint, now)) members_.push_back(one);
  };
  if (stage)
    for (const uint32_t i : *stage) add(candidates_[i]);
  else
    std::ranges::for_each(candidates_, add);
  smallest_ = std::min(smallest_, members_.size());
  return (detector_->*measure)(members_, now);
}

Gate::Saturation Gate::by_stage(Measure measure, TimePoint now) {
  candidates_.clear();
  for (const auto& endpoint : pool_->endpoints)
    candidates_.push_back({endpoint.get(), endpoint->metrics.load()});
  // What is left out of the choice of an endpoint is no room either.
  const bool without_ejected = fleet::leaves_out_ejected(*pool_, now);
  smallest_ = candidates_.size();
  Saturation saturation;
  if (!prefill_.empty()) saturation.prefill = of(&prefill_, without_ejected, measure, now);
  if (!decode_.empty()) saturation.decode = of(&decode_, without_ejected, measure, now);
  saturation.effective =
      saturation.prefill || saturation.decode
          ? std::max(saturation.prefill.value_or(0), saturation.decode.value_or(0))
          : of(nullptr, without_ejected, measure, now);
  return saturation;
}

Gate::Saturation Gate::measure(TimePoint now) {
  const MutexLock lock(mutex_);
  return detector_ && pool_ ? by_stage(&schedule::SaturationDetector::saturation, now)
                            : Saturation{};
}

bool Gate::read_locked(TimePoint now) {
  if (!detector_ || !pool_) return false;
  const TimePoint begin = clock_.now();
  const uint64_t settled = settled_.load(std::memory_order_acquire);
  const double saturation = by_stage(&schedule::SaturationDetector::pressure, now).effective;
  saturation_.store(saturation, std::memory_order_relaxed);
  const size_t sharing = candidates_.empty() ? 0 : std::max<size_t>(smallest_, 1);
  stage_size_.store(static_cast<uint32_t>(sharing), std::memory_order_relaxed);
  ceilings_.assign(bands_.size(), 1.0);
  usage_->compute(saturation, priorities_, now, ceilings_);
  // A band that is shut shuts those below it.
  double ceiling = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < bands_.size(); ++i) {
    bands_[i]->ceiling.store(ceilings_[i], std::memory_order_relaxed);
    bands_[i]->above.store(ceiling < ceilings_[i], std::memory_order_relaxed);
    ceiling = std::min(ceiling, ceilings_[i]);
    const double room = std::min(ceiling - saturation, kRoomMost);
    bands_[i]->limit.store(settled + (room > 0 ? to_units(room) : 0), std::memory_order_relaxed);
  }
  const int64_t cost = (clock_.now() - begin).count();
  period_.store(std::max<int64_t>(kPeriod.count(), cost * kPartOfLoops), std::memory_order_relaxed);
  pause_.store(cost * kPartOfDispatcher, std::memory_order_relaxed);
  read_at_.store(ticks(now), std::memory_order_release);
  return true;
}

Regime Gate::regime() const {
  const MutexLock lock(mutex_);
  return regime_;
}

Gate::Reading Gate::reading() const {
  const MutexLock lock(mutex_);
  Reading reading;
  reading.saturation = saturation_;
  for (size_t i = 0; i < ceilings_.size() && i < priorities_.size(); ++i)
    reading.ceilings.emplace_back(priorities_[i], ceilings_[i]);
  reading.reserved =
      let_in_.load(std::memory_order_relaxed) - settled_.load(std::memory_order_relaxed);
  return reading;
}

}  // namespace llmd::flow
