#include "kv_precise/promise_book.h"

#include <algorithm>
#include <array>

namespace llmd::kv_precise {
namespace {

metric::Definition family(metric::Kind kind, std::string_view name, std::string_view help) {
  return {.name = name,
          .kind = kind,
          .help = help,
          .labels = {"endpoint_name", "namespace"},
          .buckets = {},
          .twins = {}};
}

using metric::Kind;

const auto kPromised = family(
    Kind::kCounter, "llmd_kv_promised_tokens_total",
    "Prompt tokens that the index held for the endpoint that answered, of answers that report "
    "what was reused.");
const auto kReported = family(Kind::kCounter, "llmd_kv_reported_tokens_total",
                              "Prompt tokens that endpoints reported as reused in these answers.");
const auto kOver = family(Kind::kCounter, "llmd_kv_over_promised_tokens_total",
                          "Promised tokens that were not reused, beyond a block of each answer.");
const auto kUnder = family(Kind::kCounter, "llmd_kv_under_promised_tokens_total",
                           "Reused tokens that were not promised, beyond a block of each answer.");
const auto kTrusted = family(Kind::kGauge, "llmd_kv_endpoint_trusted",
                             "1, or 0 while what the index knows of the endpoint proves wrong.");

}  // namespace

PromiseBook::PromiseBook(metric::Registry& registry)
    : promised_(registry.family(kPromised)),
      reported_(registry.family(kReported)),
      over_(registry.family(kOver)),
      under_(registry.family(kUnder)),
      trusted_(registry.family(kTrusted)),
      collector_(registry.on_collect([this] {
        const MutexLock lock(mutex_);
        for (const auto& [slot, account] : accounts_) account.trusted_gauge.set(account.trusted);
      })) {}

void PromiseBook::on_added(const fleet::EndpointPtr& endpoint) {
  const std::array<std::string_view, 2> labels = {endpoint->spec().name, endpoint->spec().ns};
  const MutexLock lock(mutex_);
  Account& account = accounts_[endpoint->slot()];
  if (!account.trusted) --distrusted_;
  account = {.endpoint = endpoint,
             .promised_total = promised_.counter(labels),
             .reported_total = reported_.counter(labels),
             .over_total = over_.counter(labels),
             .under_total = under_.counter(labels),
             .trusted_gauge = trusted_.gauge(labels)};
}

void PromiseBook::on_removed(const fleet::EndpointPtr& endpoint) {
  const MutexLock lock(mutex_);
  const Account* account = account_of(*endpoint);
  if (!account) return;
  if (!account->trusted) --distrusted_;
  accounts_.erase(endpoint->slot());
  for (auto* of : {&promised_, &reported_, &over_, &under_, &trusted_})
    of->forget("endpoint_name", endpoint->spec().name);
}

PromiseBook::Account* PromiseBook::account_of(const fleet::Endpoint& endpoint) {
  const auto at = accounts_.find(endpoint.slot());
  return at != accounts_.end() && at->second.endpoint->generation() == endpoint.generation()
             ? &at->second
             : nullptr;
}

bool PromiseBook::note(const fleet::Endpoint& endpoint, const Outcome& outcome) {
  const MutexLock lock(mutex_);
  Account* account = account_of(endpoint);
  if (!account) return false;
  account->reports |= outcome.reported.has_value();
  if (!account->reports) return false;
  const int64_t reported = outcome.reported.value_or(0);
  const int64_t missing = outcome.promised - reported;
  const auto broken = static_cast<double>(missing > outcome.slack ? missing : 0);
  account->promised_total.add(static_cast<double>(outcome.promised));
  account->reported_total.add(static_cast<double>(reported));
  account->over_total.add(broken);
  account->under_total.add(static_cast<double>(-missing > outcome.slack ? -missing : 0));
  if (outcome.promised <= outcome.slack) return false;

  account->promised = account->promised * kMemory + static_cast<double>(outcome.promised);
  account->broken = account->broken * kMemory + broken;
  if (++account->promises < kPromisesMin) return false;
  const double share = account->broken / account->promised;
  const bool trust = account->trusted ? share <= kBrokenMax : share < kKeptMax;
  if (trust != account->trusted) {
    distrusted_ += trust ? -1 : 1;
    account->trusted = trust;
  }
  if (share <= kBrokenMax) return false;
  account->promises = 0;
  account->promised = account->broken = 0;
  return true;
}

bool PromiseBook::trusted(const fleet::Endpoint& endpoint) const {
  if (distrusted_.load(std::memory_order_relaxed) == 0) return true;
  const MutexLock lock(mutex_);
  const auto at = accounts_.find(endpoint.slot());
  return at == accounts_.end() || at->second.endpoint->generation() != endpoint.generation() ||
         at->second.trusted;
}

std::vector<PromiseBook::State> PromiseBook::states() const {
  std::vector<State> out;
  const MutexLock lock(mutex_);
  for (const auto& [slot, account] : accounts_)
    if (account.reports)
      out.push_back({account.endpoint->id(), account.trusted, account.promised, account.broken});
  return out;
}

}  // namespace llmd::kv_precise
