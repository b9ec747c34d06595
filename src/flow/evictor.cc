#include "flow/evictor.h"

#include "metric/buckets.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <tuple>
#include <utility>

namespace llmd::flow {
namespace {

using metric::Kind;
using schedule::Signal;

constexpr double kRevocationsMax = 2;  // of one decision
constexpr Nanos kConfirmationTimeout = std::chrono::seconds(10);

metric::Definition definition(std::string_view name, Kind kind, std::string_view help,
                              std::vector<std::string_view> labels = {"inference_pool"}) {
  return {.name = name,
          .kind = kind,
          .help = help,
          .labels = std::move(labels),
          .buckets = kind == Kind::kHistogram ? std::span<const double>(metric::buckets::kConf)
                                              : std::span<const double>(),
          .twins = {}};
}

metric::Family& outcomes(metric::Registry& metrics) {
  return metrics.family(definition("llm_d_epp_flow_control_revocations_total", Kind::kCounter,
                                   "Revoked requests by whether their streams ended in time.",
                                   {"outcome", "inference_pool"}));
}

}  // namespace

size_t revocations_needed(double saturation, double ceiling, int64_t in_flight, size_t evictable) {
  const double target = saturation - ceiling;
  if (in_flight <= 0 || target < 0) return 0;
  const double credit = saturation / static_cast<double>(in_flight);
  // Rounding errors of the division must not cost a request.
  constexpr double kSlack = 1e-9;
  const double wanted = credit > 0 ? std::ceil(target / credit - kSlack) : 1;
  return std::min(static_cast<size_t>(std::clamp(wanted, 1.0, kRevocationsMax)), evictable);
}

Evictor::Evictor(metric::Registry& metrics, const Clock& clock, std::string pool)
    : clock_(clock),
      pool_(std::move(pool)),
      issued_(metrics.family(definition("llm_d_epp_flow_control_revocations_issued_total",
                                        Kind::kCounter, "Running requests that were revoked.",
                                        {"priority", "inference_pool"}))),
      spent_(metrics.family(definition("llmd_flow_revoked_tokens_total", Kind::kCounter,
                                       "Tokens that revoked requests had used up.",
                                       {"kind", "priority", "inference_pool"}))) {
  const std::array<std::string_view, 1> label = {pool_};
  confirmed_ = outcomes(metrics).counter(std::array<std::string_view, 2>{"confirmed", pool_});
  timed_out_ = outcomes(metrics).counter(std::array<std::string_view, 2>{"timed_out", pool_});
  confirmation_ =
      metrics
          .family(definition("llm_d_epp_flow_control_revocation_confirmation_seconds",
                             Kind::kHistogram, "From a revocation to the end of its stream."))
          .histogram(label);
  target_gauge_ = metrics
                      .family(definition("llm_d_epp_flow_control_reclaim_target", Kind::kGauge,
                                         "Saturation that the last revocations were to take away."))
                      .gauge(label);
  pending_gauge_ = metrics
                       .family(definition("llm_d_epp_flow_control_pending_reclaim", Kind::kGauge,
                                          "Saturation that revoked requests still account for."))
                       .gauge(label);
  collector_ = metrics.on_collect([this] { collect(); });
}

Evictor::~Evictor() = default;

bool Evictor::Earlier::operator()(const Running& a, const Running& b) const {
  return std::tie(a.priority, b.sent, b.id) < std::tie(b.priority, a.sent, a.id);
}

Evictor::Running Evictor::track(int32_t priority, Signal evict) {
  const Running running{last_id_.fetch_add(1, std::memory_order_relaxed) + 1, priority,
                        clock_.now()};
  in_flight_.fetch_add(1, std::memory_order_relaxed);
  if (priority >= 0) return running;
  const MutexLock lock(mutex_);
  evictable_.emplace(running, std::move(evict));
  return running;
}

void Evictor::untrack(Running& running) {
  const Running ended = std::exchange(running, {});
  if (ended.id == 0) return;
  in_flight_.fetch_sub(1, std::memory_order_relaxed);
  if (ended.priority >= 0) return;
  const MutexLock lock(mutex_);
  if (evictable_.erase(ended) > 0) return;
  const TimePoint now = clock_.now();
  advance(now);
  const auto revoked = std::ranges::find(revocations_, ended.id, &Revocation::id);
  if (revoked == revocations_.end() || revoked->free_at) return;
  revoked->free_at = now + revoked->lag;
  confirmed_.add();
  confirmation_.observe(seconds(now - revoked->issued));
}

void Evictor::count_spent(int32_t priority, int64_t prompt, int64_t output) const {
  const std::string text = std::to_string(priority);
  for (const auto& [kind, tokens] : {std::pair("prompt", prompt), std::pair("output", output)}) {
    const std::array<std::string_view, 3> labels = {kind, text, pool_};
    spent_.counter(labels).add(static_cast<double>(tokens));
  }
}

size_t Evictor::reclaim(double saturation, std::span<const Claim> claims, Nanos lag) {
  std::vector<Signal> victims;
  {
    const MutexLock lock(mutex_);
    advance(clock_.now());
    if (!revocations_.empty() || evictable_.empty()) return 0;
    const int32_t least = evictable_.begin()->first.priority;
    for (const auto& claim : claims) {
      if (claim.priority <= least) break;
      if (!claim.waits || claim.ceiling <= 0 || saturation < claim.ceiling) continue;
      victims = revoke(saturation, claim, lag);
      break;
    }
  }
  for (const auto& evict : victims) evict();
  return victims.size();
}

std::vector<Signal> Evictor::revoke(double saturation, const Claim& claim, Nanos lag) {
  target_ = saturation - claim.ceiling;
  const int64_t running = in_flight();
  const TimePoint now = clock_.now();
  size_t left = revocations_needed(saturation, claim.ceiling, running, evictable_.size());
  std::vector<Signal> victims;
  for (; left > 0 && evictable_.begin()->first.priority < claim.priority; --left) {
    const auto victim = evictable_.begin();
    revocations_.push_back({.id = victim->first.id,
                            .issued = now,
                            .lag = lag,
                            .credit = saturation / static_cast<double>(running),
                            .free_at = {}});
    const std::string priority = std::to_string(victim->first.priority);
    issued_.counter(std::array<std::string_view, 2>{priority, pool_}).add();
    victims.push_back(std::move(victim->second));
    evictable_.erase(victim);
  }
  return victims;
}

/// Gives up on streams that did not end, and forgets those whose place everybody knows to be free.
void Evictor::advance(TimePoint now) {
  for (auto& revoked : revocations_) {
    const TimePoint late = revoked.issued + kConfirmationTimeout;
    if (revoked.free_at || now < late) continue;
    revoked.free_at = late + revoked.lag;
    timed_out_.add();
  }
  std::erase_if(revocations_,
                [now](const auto& revoked) { return revoked.free_at && now >= *revoked.free_at; });
}

double Evictor::pending() const {
  double sum = 0;
  for (const auto& revoked : revocations_) sum += revoked.credit;
  return sum;
}

void Evictor::collect() {
  const MutexLock lock(mutex_);
  advance(clock_.now());
  target_gauge_.set(target_);
  pending_gauge_.set(pending());
}

}  // namespace llmd::flow
