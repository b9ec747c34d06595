#include "fleet/ledger.h"

#include "base/mutex.h"

#include <algorithm>

namespace llmd::fleet {

struct Ledger::State {
  Mutex mutex;  // never taken on the request path
  std::vector<std::unique_ptr<LedgerAccount>> accounts LLMD_GUARDED_BY(mutex);
  /// Those of generation 0; some still have charges.
  std::vector<LedgerAccount*> retired LLMD_GUARDED_BY(mutex);

  /// An account with no charges and zero counters.
  LedgerAccount* take_account() LLMD_REQUIRES(mutex) {
    for (auto& slot : retired) {
      LedgerAccount* account = slot;
      if (account->charges.load() != 0) continue;
      slot = retired.back();
      retired.pop_back();
      account->requests.store(0);
      account->tokens.store(0);
      return account;
    }
    return accounts.emplace_back(std::make_unique<LedgerAccount>()).get();
  }
};

Ledger::Ledger() : state_(std::make_unique<State>()) {}
Ledger::~Ledger() = default;

Charge Ledger::charge(const Endpoint& endpoint, int64_t requests, int64_t tokens) {
  requests = std::max<int64_t>(requests, 0);
  tokens = std::max<int64_t>(tokens, 0);
  LedgerAccount* account = by_slot_[endpoint.slot()].load(std::memory_order_acquire);
  if (account == nullptr) return {};
  account->charges.fetch_add(1);
  if (account->generation.load() != endpoint.generation()) {
    account->charges.fetch_sub(1);
    return {};
  }
  account->requests.fetch_add(requests, std::memory_order_relaxed);
  account->tokens.fetch_add(tokens, std::memory_order_relaxed);
  return {account, requests, tokens};
}

void Ledger::take(std::atomic<int64_t>& counter, int64_t n) {
  int64_t now = counter.load(std::memory_order_relaxed);
  while (!counter.compare_exchange_weak(now, std::max<int64_t>(now - n, 0),
                                        std::memory_order_acq_rel, std::memory_order_relaxed)) {
  }
  if (now < n) alarms_.fetch_add(1, std::memory_order_relaxed);
}

void Ledger::release_tokens(Charge& charge) {
  if (charge.account == nullptr || charge.tokens == 0) return;
  take(charge.account->tokens, charge.tokens);
  charge.tokens = 0;
}

void Ledger::release(Charge& charge) {
  if (charge.account == nullptr) return;
  release_tokens(charge);
  if (charge.requests != 0) take(charge.account->requests, charge.requests);
  take(charge.account->charges, 1);
  charge = {};
}

std::vector<std::pair<std::string, Ledger::Load>> Ledger::dump() const {
  std::vector<std::pair<std::string, Load>> out;
  const MutexLock lock(state_->mutex);
  for (size_t slot = 0; slot < limits::kEndpointsMax; ++slot) {
    const LedgerAccount* account = by_slot_[slot].load(std::memory_order_acquire);
    if (account == nullptr || account->generation.load() == 0) continue;
    const Load load{account->requests.load(), account->tokens.load()};
    if (load != Load{}) out.emplace_back(account->id, load);
  }
  return out;
}

void Ledger::on_added(const EndpointPtr& endpoint) {
  const MutexLock lock(state_->mutex);
  if (find(endpoint->slot(), endpoint->generation()) != nullptr) return;
  LedgerAccount* account = state_->take_account();
  account->generation.store(endpoint->generation());
  account->id = endpoint->id();
  by_slot_[endpoint->slot()].store(account, std::memory_order_release);
}

void Ledger::on_removed(const EndpointPtr& endpoint) {
  const MutexLock lock(state_->mutex);
  LedgerAccount* account = find(endpoint->slot(), endpoint->generation());
  if (account == nullptr) return;
  by_slot_[endpoint->slot()].store(nullptr, std::memory_order_release);
  account->generation.store(0);
  state_->retired.push_back(account);
}

}  // namespace llmd::fleet
