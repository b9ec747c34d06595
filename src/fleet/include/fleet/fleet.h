#pragma once

#include "fleet/endpoint.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace llmd::fleet {

/// Who is in the fleet. Discovery writes, everybody else reads snapshots.
/// Threading: set() from one control thread; snapshot() from any; listeners run on the control
/// thread.
class Fleet {
 public:
  Fleet();

  /// Makes `specs` the membership. An endpoint whose id, address, port, scheme and name in
  /// certificates are unchanged keeps slot and generation (with changed labels it becomes a new
  /// Endpoint object of the same identity, metrics carried over); anything else is removed or
  /// added, and an address that returns is a new generation. Two specs with one id: the later wins.
  /// New endpoints beyond limits::kEndpointsMax are refused, logged and counted.
  void set(std::vector<EndpointSpec> specs);

  /// Never null. Takes a lock: loops keep the copy that subscribe() brings them. Keep the pointer
  /// while using what it lists: `for (e : fleet.snapshot()->endpoints)` iterates over a snapshot
  /// that may be gone.
  SnapshotPtr snapshot() const;

  /// How many times a new endpoint was refused because the fleet was full.
  uint64_t refused() const;

  /// Called after every change with the new snapshot, on the control thread; loops use it to
  /// refresh their copy. Returned token unsubscribes; it must not be dropped inside a callback.
  std::shared_ptr<void> subscribe(std::function<void(const SnapshotPtr&)> on_change);
  /// State kept per endpoint. on_added runs at once for every present endpoint, so it must be
  /// idempotent. Returned token unsubscribes.
  std::shared_ptr<void> listen(std::shared_ptr<MembershipListener> listener);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace llmd::fleet
