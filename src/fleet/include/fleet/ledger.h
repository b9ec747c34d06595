#pragma once

#include "base/limits.h"
#include "fleet/endpoint.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace llmd::fleet {

/// The counters of one endpoint generation; the ledger's own.
///
/// Invariants:
///   1. `generation` is set while the endpoint is in the fleet and 0 otherwise.
///   2. An account is given to another endpoint only when generation is 0 and no charge points at
///   it.
/// A charger first raises `charges` and then looks at `generation`; the control thread first clears
/// `generation` and then looks at `charges`. All four are sequentially consistent, so at least one
/// of them sees the other.
struct alignas(64) LedgerAccount {
  std::string id;  // guarded by the ledger's mutex
  std::atomic<uint64_t> generation{0};
  std::atomic<int64_t> charges{0};
  std::atomic<int64_t> requests{0};
  std::atomic<int64_t> tokens{0};
};

/// What one request put on one endpoint and has not taken back. Trivially copyable, so it lives in
/// the request's arena, but it is one debt: release the original and forget copies. An empty charge
/// owes nothing.
struct Charge {
  LedgerAccount* account = nullptr;
  int64_t requests = 0;
  int64_t tokens = 0;
};

/// Work on its way to each endpoint: charged when a request is sent, released when its parts are
/// done.
///
/// A charge points at the counters it raised, so it takes back exactly what it put there, also
/// after the endpoint is gone or has come back: the new generation counts from zero. Releasing
/// empties the charge, so that a second release does nothing. Sums never go below zero; an attempt
/// raises alarms() and stops at zero.
///
/// Threading: on_added() and on_removed() from the control thread, everything else from any thread,
/// without locks. Lifetime: longer than every charge. Cost: three atomic additions a charge, on a
/// cache line per endpoint.
class Ledger final : public MembershipListener {
 public:
  struct Load {
    int64_t requests = 0;
    int64_t tokens = 0;
    bool operator==(const Load&) const = default;
  };

  Ledger();
  ~Ledger() override;

  /// Adds to the endpoint's counters. An endpoint that is no longer in the fleet gives an empty
  /// charge. Requires: requests >= 0, tokens >= 0.
  Charge charge(const Endpoint& endpoint, int64_t requests, int64_t tokens);
  /// Takes back everything the charge still holds and empties it.
  void release(Charge& charge);
  /// Takes back the tokens and keeps the requests, as when a prompt has been processed.
  void release_tokens(Charge& charge);

  /// What is on the endpoint now; zero for one that is no longer in the fleet. Two loads with no
  /// lock between them, so requests and tokens may be a moment apart.
  Load load(uint32_t slot, uint64_t generation) const {
    const LedgerAccount* account = find(slot, generation);
    if (account == nullptr) return {};
    return {account->requests.load(std::memory_order_relaxed),
            account->tokens.load(std::memory_order_relaxed)};
  }
  Load load(const Endpoint& endpoint) const { return load(endpoint.slot(), endpoint.generation()); }

  /// How often a counter would have become negative: each is a bug.
  uint64_t alarms() const { return alarms_.load(std::memory_order_relaxed); }

  /// The load of each present endpoint that has any, for debug dumps, in order of slots.
  std::vector<std::pair<std::string, Load>> dump() const;

  void on_added(const EndpointPtr& endpoint) override;
  void on_removed(const EndpointPtr& endpoint) override;

 private:
  struct State;

  LedgerAccount* find(uint32_t slot, uint64_t generation) const {
    LedgerAccount* account = by_slot_[slot].load(std::memory_order_acquire);
    const bool current = account != nullptr && account->generation.load() == generation;
    return current ? account : nullptr;
  }
  void take(std::atomic<int64_t>& counter, int64_t n);

  std::array<std::atomic<LedgerAccount*>, limits::kEndpointsMax> by_slot_{};
  std::unique_ptr<State> state_;
  std::atomic<uint64_t> alarms_{0};
};

}  // namespace llmd::fleet
